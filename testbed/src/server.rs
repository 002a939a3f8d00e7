//! Any HTTP server as a child process.

use std::process::{Command, ExitStatus};
use std::time::Duration;

use crate::http::{self, Answer};
use crate::process::{CpuTime, Log, Memory, Process, Signal};
use crate::{Error, Result, net, process};

const START_LIMIT: Duration = Duration::from_secs(60);

/// A running server that has answered its first health check. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    process: Process,
    port: u16,
}

impl Server {
    /// Starts what `command` makes for a free port, and waits until `GET health` is a 200.
    pub fn start(
        name: &str,
        health: &str,
        command: impl Fn(u16) -> Result<Command>,
    ) -> Result<Self> {
        on_a_free_port(|port| Self::start_on(port, name, health, &command))
    }

    /// The same for a server whose first answer, whatever it says, is health enough.
    pub fn start_answering(
        name: &str,
        path: &str,
        command: impl Fn(u16) -> Result<Command>,
    ) -> Result<Self> {
        on_a_free_port(|port| Self::start_when(port, name, path, &command, |_| true))
    }

    pub fn start_on(
        port: u16,
        name: &str,
        health: &str,
        command: impl Fn(u16) -> Result<Command>,
    ) -> Result<Self> {
        Self::start_when(port, name, health, command, |answer| answer.status == 200)
    }

    fn start_when(
        port: u16,
        name: &str,
        health: &str,
        command: impl Fn(u16) -> Result<Command>,
        is_ready: fn(&Answer) -> bool,
    ) -> Result<Self> {
        let mut process = Process::start(name, command(port)?)?;
        let health = format!("http://127.0.0.1:{port}{health}");
        net::wait_until(&format!("{name} to be healthy"), START_LIMIT, || {
            // Asked first: another server on that port must not be taken for this one.
            if let Some(status) = process.has_exited() {
                process.kill();
                let said = process.log().tail();
                return Err(Error::new(format!(
                    "{name} did not start ({status}): {said}"
                )));
            }
            Ok(http::get(&health).is_ok_and(|answer| is_ready(&answer)))
        })?;
        Ok(Server { process, port })
    }

    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base_url())
    }

    pub fn address(&self) -> std::net::SocketAddr {
        (std::net::Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub fn get(&self, path: &str) -> Result<Answer> {
        http::get(&self.url(path))
    }

    pub fn post(&self, path: &str, token: Option<&str>, body: &str) -> Result<Answer> {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<(&str, &str)> = bearer
            .iter()
            .map(|value| ("authorization", value.as_str()))
            .collect();
        http::request("POST", &self.url(path), &headers, body)
    }

    pub fn log(&self) -> &Log {
        self.process.log()
    }

    pub fn cpu_time(&self) -> CpuTime {
        process::cpu_time_of_tree(self.pid())
    }

    pub fn memory(&self) -> Result<Memory> {
        process::memory(self.pid())
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// Waits for it to end by itself.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.process.wait(limit)
    }

    /// SIGTERM, and waits: a server gets 10 s to finish what it has begun.
    pub fn terminate(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.wait(Duration::from_secs(15))
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}

/// Between finding a free port and taking it, someone else may.
fn on_a_free_port(start: impl Fn(u16) -> Result<Server>) -> Result<Server> {
    for _ in 0..3 {
        match start(net::free_port()) {
            Err(error) if error.to_string().contains("in use") => {}
            result => return result,
        }
    }
    start(net::free_port())
}
