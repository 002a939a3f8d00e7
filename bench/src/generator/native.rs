use std::io::{BufRead, BufReader};
use std::process::Command;
use std::sync::mpsc::channel;

use testbed::{Error, Result};

use super::Generator;
use crate::engine::{self, Load};

pub fn start(load: &Load) -> Result<Generator> {
    let failed =
        |error: &dyn std::fmt::Display| Error::new(format!("cannot start the generator: {error}"));
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let text = serde_json::to_string(load).map_err(|error| failed(&error))?;
    let mut command = Command::new(program);
    command.args(["generate", &text]);
    let mut child = super::spawn(command)?;
    let (sender, messages) = channel();
    let stdout = child.stdout.take().expect("stdout is piped");
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(|line| line.ok()) {
            let message = serde_json::from_str(&line)
                .map_err(|error| Error::new(format!("the generator said {line:?}: {error}")));
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    Ok(Generator { child, messages })
}

/// The generator's side: runs the load and prints a message a line.
pub fn generate(load: &str) -> Result<()> {
    let load: Load =
        serde_json::from_str(load).map_err(|error| Error::new(format!("not a load: {error}")))?;
    engine::run(&load, crate::interrupt::signal(), |message| {
        // Nobody reads on once the parent is gone; the kernel ends this process then.
        if let Ok(line) = serde_json::to_string(&message) {
            println!("{line}");
        }
    })
}
