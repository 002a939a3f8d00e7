//! The origin as its own process.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{AS_IT_IS, Prepare};
use crate::{Error, Result, Server, cache};

/// What tests and measurements sign tokens with.
pub const SECRET: &str = "twelve-dollar-challenge";

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
pub struct Origin(Server);

impl Origin {
    /// Starts on a free port, unless the configuration names one.
    pub fn start(config: OriginConfig) -> Result<Self> {
        Self::start_prepared(config, AS_IT_IS)
    }

    pub fn start_prepared(config: OriginConfig, prepare: Prepare) -> Result<Self> {
        let command = |port: u16| {
            let config = config.clone().env("HOST", "127.0.0.1").env("PORT", port);
            let mut command = config.command();
            prepare(&mut command)?;
            Ok(command)
        };
        let named = config.env.iter().find(|(name, _)| name == "PORT");
        match named.map(|(_, port)| port.parse()) {
            None => Server::start(NAME, HEALTH, command),
            Some(Ok(port)) => Server::start_on(port, NAME, HEALTH, command),
            Some(Err(error)) => Err(Error::new(format!("PORT: {error}"))),
        }
        .map(Origin)
    }

    pub fn into_server(self) -> Server {
        self.0
    }
}

impl Deref for Origin {
    type Target = Server;
    fn deref(&self) -> &Server {
        &self.0
    }
}

impl DerefMut for Origin {
    fn deref_mut(&mut self) -> &mut Server {
        &mut self.0
    }
}

const NAME: &str = "the origin";
const HEALTH: &str = "/health";

/// Names the program that the running test run has built already.
pub const BINARY_VARIABLE: &str = "TESTBED_ORIGIN_BINARY";

/// Builds the origin with a cargo profile (`dev`, `release`, …) and returns the program.
///
/// Within a test run it is the one that was built with the tests: cargo would link another,
/// with the features that this package alone asks for, in the place of the one that other
/// tests are running.
pub fn binary(profile: &str) -> Result<PathBuf> {
    match std::env::var_os(BINARY_VARIABLE) {
        Some(built) if profile == "dev" => Ok(built.into()),
        _ => cache::build("origin", profile),
    }
}
