//! A load generator as a process of its own, so that its CPU is its own too.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use testbed::process::{self, Signal};
use testbed::{Error, Result};

use crate::engine::{self, Load, Message};

/// A message every second is expected; a generator silent for so long is stuck.
const SILENCE_LIMIT: Duration = Duration::from_secs(90);

pub struct Native {
    child: Child,
    lines: Receiver<String>,
}

impl Native {
    pub fn start(load: &Load) -> Result<Native> {
        let failed = |error: &dyn std::fmt::Display| {
            Error::new(format!("cannot start the generator: {error}"))
        };
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let text = serde_json::to_string(load).map_err(|error| failed(&error))?;
        let mut command = Command::new(program);
        command.args(["generate", &text]);
        Self::start_command(command)
    }

    fn start_command(mut command: Command) -> Result<Native> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Ctrl-C goes to this process, which decides.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = process::spawn(command, Signal::KILL)
            .map_err(|error| Error::new(format!("cannot start the generator: {error}")))?;
        let (sender, lines) = channel();
        let stdout = child.stdout.take().expect("stdout is piped");
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(|line| line.ok()) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Native { child, lines })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for what the generator says next.
    pub fn hear(&mut self) -> Result<Message> {
        match self.lines.recv_timeout(SILENCE_LIMIT) {
            Ok(line) => serde_json::from_str(&line)
                .map_err(|error| Error::new(format!("the generator said {line:?}: {error}"))),
            Err(RecvTimeoutError::Timeout) => Err(Error::new("the generator is stuck")),
            Err(RecvTimeoutError::Disconnected) => {
                let mut said = String::new();
                if let Some(stderr) = &mut self.child.stderr {
                    let _ = std::io::Read::read_to_string(stderr, &mut said);
                }
                let said = said.trim().trim_start_matches("error: ");
                Err(Error::new(format!("the generator ended: {said}")))
            }
        }
    }

    /// It stops and says what it has measured.
    pub fn interrupt(&self) {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.child),
            Signal::INT,
        );
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
