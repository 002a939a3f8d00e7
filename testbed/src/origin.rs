//! The origin as its own process.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use crate::http::{self, Answer};
use crate::process::{CpuTime, Log, Memory, Process, Signal};
use crate::{Error, Result, cache, net, process};

/// What tests and measurements sign tokens with.
pub const SECRET: &str = "twelve-dollar-challenge";

const START_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub struct OriginConfig {
    binary: PathBuf,
    env: Vec<(String, String)>,
}

impl OriginConfig {
    /// `binary`: `env!("CARGO_BIN_EXE_origin")` in the origin's own tests, [`binary`] elsewhere.
    pub fn new(binary: impl AsRef<Path>, database_url: &str) -> Self {
        let config = OriginConfig {
            binary: binary.as_ref().to_owned(),
            env: Vec::new(),
        };
        config
            .env("DATABASE_URL", database_url)
            .env("JWT_SECRET", SECRET)
            .env("WORKERS", "1")
    }

    /// Sets an environment variable; the last value given counts.
    pub fn env(mut self, name: &str, value: impl ToString) -> Self {
        self.env.retain(|(set, _)| set != name);
        self.env.push((name.to_owned(), value.to_string()));
        self
    }

    pub fn without_env(mut self, name: &str) -> Self {
        self.env.retain(|(set, _)| set != name);
        self
    }

    /// The command that serves. It gets these variables and none of the caller's.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .arg("serve")
            .env_clear()
            .envs(self.env.iter().cloned());
        command
    }
}

/// A running origin that has answered its first health check. Dropping it kills it.
#[derive(Debug)]
pub struct Origin {
    process: Process,
    port: u16,
}

impl Origin {
    /// Starts on a free port, unless the configuration names one.
    pub fn start(config: OriginConfig) -> Result<Self> {
        let fixed = config.env.iter().find(|(name, _)| name == "PORT");
        if let Some((_, port)) = fixed {
            let port = port
                .parse()
                .map_err(|_| Error::new(format!("PORT is not one: {port}")))?;
            return Self::start_on(port, &config);
        }
        // Between finding a free port and taking it, someone else may.
        for _ in 0..3 {
            match Self::start_on(net::free_port(), &config) {
                Err(error) if error.to_string().contains("in use") => {}
                result => return result,
            }
        }
        Self::start_on(net::free_port(), &config)
    }

    fn start_on(port: u16, config: &OriginConfig) -> Result<Self> {
        let config = config.clone().env("HOST", "127.0.0.1").env("PORT", port);
        let mut process = Process::start("the origin", config.command())?;
        let health = format!("http://127.0.0.1:{port}/health");
        net::wait_until("the origin to be healthy", START_LIMIT, || {
            // Asked first: another server on that port must not be taken for this one.
            if let Some(status) = process.has_exited() {
                process.kill();
                let said = process.log().tail();
                return Err(Error::new(format!(
                    "the origin did not start ({status}): {said}"
                )));
            }
            Ok(http::get(&health).is_ok_and(|answer| answer.status == 200))
        })?;
        Ok(Origin { process, port })
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

    /// Waits for the origin to end by itself.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.process.wait(limit)
    }

    /// SIGTERM, and waits: the origin promises to be gone within 10 s.
    pub fn terminate(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.wait(Duration::from_secs(15))
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}

/// Builds the origin with a cargo profile (`dev`, `release`, …) and returns the program.
pub fn binary(profile: &str) -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args([
            "build",
            "--quiet",
            "--package",
            "origin",
            "--bin",
            "origin",
            "--profile",
            profile,
        ])
        .arg("--target-dir")
        .arg(cache::build_folder())
        .current_dir(cache::workspace());
    process::run(cargo)?;
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(cache::build_folder().join(folder).join("origin"))
}
