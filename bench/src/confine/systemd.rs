//! A scope that systemd makes: the user's own manager may where the user may not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use testbed::process::Process;
use testbed::{Error, Result, wait_until};

use super::{Door, Enclosure, Kind, Limits, PERIOD_US, remove_abandoned, v2};

pub(super) const SUFFIX: &str = ".scope";

#[derive(Debug, Clone)]
pub(super) struct Scope {
    unit: String,
}

const START_LIMIT: Duration = Duration::from_secs(10);

pub(super) fn enclose(root: &Path, name: &str, limits: Limits) -> Result<Enclosure> {
    if !v2::is_at(root) {
        return Err(Error::new(
            "systemd lets users confine nothing with cgroup v1",
        ));
    }
    let unit = format!("{name}{SUFFIX}");
    let mut run = of_manager("systemd-run");
    run.args(["--scope", "--quiet", "--collect", "--no-ask-password"])
        .args(["--unit", &unit]);
    for property in properties(limits) {
        run.arg("-p").arg(property);
    }
    run.args(["sleep", "infinity"]);
    // It becomes the program it runs once the scope is there.
    let mut holder = Process::start("systemd-run", run)?;
    let mut folder = None;
    wait_until("systemd to make a scope", START_LIMIT, || {
        if holder.has_exited().is_some() {
            holder.kill();
            let said = holder.log().lines().join(", ");
            return Err(Error::new(format!("systemd-run: {said}")));
        }
        folder = folder_of(holder.pid(), &unit);
        Ok(folder.is_some())
    })?;
    let folder = root.join(folder.expect("waited for"));
    if let Some(parent) = folder.parent() {
        remove_abandoned(parent);
    }

    // A user's manager controls what it was given: this differs by distribution.
    let is_missing = |(_, file): &(&str, &str)| !folder.join(file).exists();
    let files = [("CPU", "cpu.max"), ("memory", "memory.max")];
    let unlimited: Vec<&str> = (files.into_iter().filter(is_missing))
        .map(|(what, _)| what)
        .collect();
    if unlimited.len() == files.len() {
        return Err(Error::new("systemd was given no controllers for this user"));
    }
    let mut enclosure = Enclosure::with(Kind::Systemd);
    enclosure.confinement.folders.push(folder);
    enclosure.door = Door::Scope(Scope { unit });
    enclosure.holder = Some(holder);
    enclosure.unlimited = unlimited;
    Ok(enclosure)
}

pub(super) fn properties(limits: Limits) -> [String; 5] {
    [
        format!("CPUQuota={:.2}%", limits.cpu_percent),
        format!("CPUQuotaPeriodSec={PERIOD_US}us"),
        format!("MemoryMax={}", limits.memory_bytes),
        "MemorySwapMax=0".to_owned(),
        // Without it systemd moves no process that runs already.
        "Delegate=yes".to_owned(),
    ]
}

/// The control group of a process, below the root of their tree, once it is that of the unit.
fn folder_of(pid: u32, unit: &str) -> Option<PathBuf> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let folder = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folder = PathBuf::from(folder);
    folder.ends_with(unit).then_some(folder)
}

impl Scope {
    pub(super) fn attach(&self, pid: u32) -> Result<()> {
        let mut call = of_manager("busctl");
        call.args(["--quiet", "call", "org.freedesktop.systemd1"])
            .args([
                "/org/freedesktop/systemd1",
                "org.freedesktop.systemd1.Manager",
            ])
            .args(["AttachProcessesToUnit", "ssau", &self.unit, "", "1"])
            .arg(pid.to_string())
            .stdin(Stdio::null());
        // Not by `process::run`: who starts processes there waits for this one to be let in.
        let output = (call.output()).map_err(|error| Error::new(format!("busctl: {error}")))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(Error::new(format!(
                "busctl: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ))),
        }
    }
}

/// A client of the system's manager for root, of their own for anyone else.
fn of_manager(program: &str) -> Command {
    let mut command = Command::new(program);
    let user = rustix::process::geteuid();
    if !user.is_root() {
        command.arg("--user");
        // Where the manager listens: unset after `su`.
        if std::env::var_os("XDG_RUNTIME_DIR").is_none() {
            command.env("XDG_RUNTIME_DIR", format!("/run/user/{}", user.as_raw()));
        }
    }
    command
}
