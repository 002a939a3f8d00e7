//! A throw-away PostgreSQL: a cluster of its own in a temporary folder.

mod programs;
mod replica;

pub use programs::Programs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::Context;
use crate::process::{AS_IT_IS, CpuTime, Prepare, Process, Signal};
use crate::{Error, Result, TempDir, cache, net, process};

const SUPERUSER: &str = "postgres";
/// Protects nothing; with a password in its URL, whoever must not leak one can be tested.
pub const PASSWORD: &str = "throwaway";

const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Flush to disk, as a server that is to survive a power cut must. Off by default, for
    /// speed: what a killed *process* wrote survives without it.
    pub fsync: bool,
    /// More settings, as in `postgresql.conf`.
    pub settings: Vec<(String, String)>,
    /// The data folder of a stopped cluster to begin with, instead of an empty one.
    pub from: Option<PathBuf>,
}

impl Options {
    /// What is measured: durable, and sized for a machine of 2 GB.
    pub fn as_deployed() -> Options {
        let settings = [("shared_buffers", "512MB"), ("max_wal_size", "1GB")];
        Options {
            fsync: true,
            settings: settings
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            from: None,
        }
    }

    /// Begins with a copy of the cluster that is kept there.
    pub fn begun_with(self, kept: &cache::Kept) -> Options {
        Options {
            from: Some(kept.path.join("data")),
            ..self
        }
    }
}

/// How to stop, from polite to brutal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Breaks connections, writes everything out.
    Fast,
    /// Quits at once; the next start recovers from the log.
    Immediate,
    /// SIGKILL for every process, as the kernel does when memory runs out.
    Kill,
}

/// What a process of the server is for, by the title it gives itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Postmaster,
    Backend,
    Checkpointer,
    BackgroundWriter,
    WalWriter,
    Autovacuum,
    Other,
}

/// A running (or stopped) cluster. Dropping it stops the server and removes the folder.
#[derive(Debug)]
pub struct Postgres {
    process: Option<Process>,
    programs: Programs,
    port: u16,
    options: Options,
    dir: TempDir,
}

impl Postgres {
    /// An empty cluster, started.
    pub fn start() -> Result<Self> {
        Self::start_with(Options::default())
    }

    pub fn start_with(options: Options) -> Result<Self> {
        Self::start_prepared(options, AS_IT_IS)
    }

    pub fn start_prepared(options: Options, prepare: Prepare) -> Result<Self> {
        Self::create(options)?.started_on_a_free_port(prepare)
    }

    fn started_on_a_free_port(mut self, prepare: Prepare) -> Result<Self> {
        // Between finding a free port and taking it, someone else may.
        for tries_left in (0..3).rev() {
            match self.launch(prepare) {
                Err(error) if tries_left > 0 && error.to_string().contains("in use") => {
                    self.port = net::free_port();
                }
                result => return result.map(|()| self),
            }
        }
        unreachable!("the last try returns")
    }

    /// A cluster that is not started yet.
    fn create(options: Options) -> Result<Self> {
        let from = options.from.clone();
        Self::create_with(options, |data, programs| match &from {
            Some(template) => cache::copy(template, data),
            None => cache::copy(&empty_cluster(programs)?.path.join("data"), data),
        })
    }

    /// The same with a data folder that `fill` makes.
    fn create_with(
        options: Options,
        fill: impl FnOnce(&Path, &Programs) -> Result<()>,
    ) -> Result<Self> {
        let programs = Programs::find()?;
        let dir = TempDir::new("postgres")?;
        programs.own(dir.path())?;
        let sockets = dir.join("socket");
        fs::create_dir(&sockets).context(|| format!("cannot create {}", sockets.display()))?;
        programs.own(&sockets)?;
        fill(&dir.join("data"), &programs)?;
        Ok(Postgres {
            process: None,
            programs,
            port: net::free_port(),
            options,
            dir,
        })
    }

    /// Starts the server again after [`Postgres::stop`], on the same port with the same data.
    pub fn start_again(&mut self) -> Result<()> {
        self.launch(AS_IT_IS)
    }

    fn launch(&mut self, prepare: Prepare) -> Result<()> {
        assert!(self.process.is_none(), "the server runs already");
        let data = self.data_folder();
        let mut command = self.programs.command("postgres");
        command.arg("-D").arg(&data);
        for (name, value) in self.settings() {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        prepare(&mut command)?;
        // Immediate shutdown is what the server itself asks for in an emergency: it takes its
        // children along.
        let mut process = Process::start_with("PostgreSQL", command, Signal::QUIT)?;
        let pid = process.pid();
        let started = net::wait_until("PostgreSQL to start", START_LIMIT, || {
            if process.has_exited().is_some() {
                process.kill();
                return Err(Error::new(format!(
                    "PostgreSQL did not start: {}",
                    process.log().tail()
                )));
            }
            Ok(is_ready(&data, pid))
        });
        self.process = Some(process);
        if started.is_err() {
            self.process = None;
        }
        started
    }

    pub fn stop(&mut self, how: Stop) -> Result<()> {
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        // A frozen one would not hear the rest.
        signal_tree(process.pid(), Signal::CONT);
        match how {
            Stop::Fast => process.signal(Signal::INT)?,
            Stop::Immediate => process.signal(Signal::QUIT)?,
            Stop::Kill => signal_tree(process.pid(), Signal::KILL),
        }
        if let Err(error) = process.wait(STOP_LIMIT) {
            signal_tree(process.pid(), Signal::KILL);
            return Err(error);
        }
        Ok(())
    }

    pub fn restart(&mut self, how: Stop) -> Result<()> {
        self.stop(how)?;
        self.start_again()
    }

    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The database every cluster has, `postgres`.
    pub fn url(&self) -> String {
        self.database_url("postgres")
    }

    pub fn database_url(&self, database: &str) -> String {
        format!(
            "postgres://{SUPERUSER}:{PASSWORD}@127.0.0.1:{}/{database}",
            self.port
        )
    }

    /// The same database by the unix socket.
    pub fn socket_url(&self, database: &str) -> String {
        let folder = self
            .socket_folder()
            .display()
            .to_string()
            .replace('/', "%2F");
        format!(
            "postgres://{SUPERUSER}:{PASSWORD}@/{database}?host={folder}&port={}",
            self.port
        )
    }

    pub fn socket_folder(&self) -> PathBuf {
        self.dir.join("socket")
    }

    pub fn data_folder(&self) -> PathBuf {
        self.dir.join("data")
    }

    pub fn create_database(&self, name: &str) -> Result<String> {
        self.query(&format!("CREATE DATABASE \"{name}\""))?;
        Ok(self.database_url(name))
    }

    /// Runs SQL in the database `postgres`; one line a row, `|` between columns.
    pub fn query(&self, sql: &str) -> Result<String> {
        self.query_in("postgres", sql)
    }

    pub fn query_in(&self, database: &str, sql: &str) -> Result<String> {
        let mut psql = self.programs.psql();
        psql.args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-U",
            SUPERUSER,
        ])
        .arg("-h")
        .arg(self.socket_folder())
        .args(["-p", &self.port.to_string(), "-d", database, "-c", sql])
        .env("PGPASSWORD", PASSWORD);
        Ok(process::run(psql)?.trim_end().to_owned())
    }

    /// The postmaster's process id.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    /// Every process of the server that lives now.
    pub fn processes(&self) -> Vec<(Kind, u32)> {
        let Some(postmaster) = self.pid() else {
            return Vec::new();
        };
        let kind = |pid: u32| match pid == postmaster {
            true => Kind::Postmaster,
            false => Kind::of(&process::command_line(pid).unwrap_or_default()),
        };
        process::tree(postmaster)
            .into_iter()
            .map(|pid| (kind(pid), pid))
            .collect()
    }

    /// What all its processes have used since it started, those that ended included.
    pub fn cpu_time(&self) -> CpuTime {
        self.pid()
            .map(process::cpu_time_of_tree)
            .unwrap_or_default()
    }

    pub fn log(&self) -> String {
        self.process
            .as_ref()
            .map(|process| process.log().text())
            .unwrap_or_default()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let fsync = if self.options.fsync { "on" } else { "off" };
        let sockets = self.socket_folder().display().to_string();
        let port = self.port.to_string();
        [
            ("listen_addresses", "127.0.0.1"),
            ("port", port.as_str()),
            ("unix_socket_directories", sockets.as_str()),
            ("fsync", fsync),
            ("full_page_writes", fsync),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .chain(self.options.settings.iter().cloned())
        .collect()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.stop(Stop::Immediate);
    }
}

impl Kind {
    /// `postgres: checkpointer `, `postgres: postgres feed 127.0.0.1(40404) idle`
    pub fn of(title: &str) -> Kind {
        let role = title
            .strip_prefix("postgres: ")
            .unwrap_or_default()
            .trim_end();
        match role {
            "checkpointer" => Kind::Checkpointer,
            "background writer" => Kind::BackgroundWriter,
            "walwriter" => Kind::WalWriter,
            _ if role.starts_with("autovacuum") => Kind::Autovacuum,
            _ if role.starts_with(&format!("{SUPERUSER} ")) => Kind::Backend,
            _ => Kind::Other,
        }
    }
}

/// The server writes its state into the eighth line of its pid file.
fn is_ready(data: &Path, pid: u32) -> bool {
    let text = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let mut lines = text.lines();
    let is_this_server = lines.next() == Some(pid.to_string().as_str());
    is_this_server && lines.nth(6).is_some_and(|state| state.trim() == "ready")
}

fn signal_tree(root: u32, signal: Signal) {
    // The root first: it would start what is missing again.
    for pid in process::tree(root) {
        if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

/// initdb takes most of a second of CPU; a copy of what it made, a seventh.
fn empty_cluster(programs: &Programs) -> Result<cache::Kept> {
    let version = programs.major_version()?;
    cache::folder(&format!("postgres-{version}-empty"), 1, |target| {
        let dir = TempDir::new("initdb")?;
        programs.own(dir.path())?;
        let password = dir.join("password");
        fs::write(&password, PASSWORD).context(|| "cannot write a password".into())?;
        let mut initdb: Command = programs.command("initdb");
        initdb
            .args([
                "--no-sync",
                "--encoding=UTF8",
                "--locale=C",
                "--auth=scram-sha-256",
            ])
            .args(["--username", SUPERUSER, "--pwfile"])
            .arg(&password)
            .arg("-D")
            .arg(dir.join("data"));
        process::run(initdb)?;
        cache::copy(&dir.join("data"), &target.join("data"))
    })
}

#[cfg(test)]
mod tests;
