//! A load generator as a process of its own, so that its CPU is its own too.

mod k6;
mod native;

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use testbed::process::{self, Signal};
use testbed::{Error, Result};

use crate::engine::{Load, Message};
pub use native::generate;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// This program's own: a few kB a user, about 20 µs a request
    Native,
    /// The scripts in k6/, run by k6: 0.3 MB a user, 0.3 ms a request
    K6,
}

/// A message every second is expected; a generator silent for so long is stuck.
const SILENCE_LIMIT: Duration = Duration::from_secs(90);

pub struct Generator {
    child: Child,
    messages: Receiver<Result<Message>>,
}

impl Generator {
    pub fn start(engine: Engine, load: &Load) -> Result<Generator> {
        match engine {
            Engine::Native => native::start(load),
            Engine::K6 => k6::start(load),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for what the generator says next.
    pub fn hear(&mut self) -> Result<Message> {
        match self.messages.recv_timeout(SILENCE_LIMIT) {
            Ok(message) => message,
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
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, Signal::INT);
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ctrl-C goes to this process alone, which decides.
fn spawn(mut command: Command) -> Result<Child> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    process::spawn(command, Signal::KILL)
        .map_err(|error| Error::new(format!("cannot start the generator: {error}")))
}
