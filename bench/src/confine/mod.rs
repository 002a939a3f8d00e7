//! The box: a share of one core and an amount of memory for the servers, by control groups.
//!
//! By hand where this user may make one, version 2 or 1, else by asking systemd.

mod figures;
mod systemd;
#[cfg(test)]
mod tests;
mod v1;
mod v2;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use testbed::process::{Process, Signal};
use testbed::{Error, Result, process};

pub use figures::Confinement;
use figures::Kind;

/// How big the box is.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Limits {
    pub cpu_percent: f64,
    pub memory_bytes: u64,
}

/// The quota is given out this often. Short, since a process that has used it up stands
/// still until the next: with the usual 100 ms a share of 20% would stall for 80.
const PERIOD_US: u64 = 10_000;

impl Limits {
    fn quota_us(self) -> u64 {
        (PERIOD_US as f64 * self.cpu_percent / 100.0).round() as u64
    }
}

/// A control group of its own, removed with the value, and with it whoever is still in it.
#[derive(Debug)]
pub struct Enclosure {
    confinement: Confinement,
    door: Door,
    /// Keeps a scope, which would end with the last process in it.
    holder: Option<Process>,
    refusal: Arc<Mutex<Option<String>>>,
    /// What the kernel or systemd would not limit.
    unlimited: Vec<&'static str>,
}

/// How a process gets in.
#[derive(Debug, Clone)]
enum Door {
    Folders(Vec<PathBuf>),
    Scope(systemd::Scope),
}

const ROOT: &str = "/sys/fs/cgroup";

impl Enclosure {
    pub fn new(limits: Limits) -> Result<Enclosure> {
        let root = Path::new(ROOT);
        let name = format!("{PREFIX}{}", std::process::id());
        let by_hand = match v2::is_at(root) {
            true => v2::enclose(root, &name, limits),
            false => v1::enclose(root, &name, limits),
        };
        by_hand.or_else(|refused| {
            systemd::enclose(root, &name, limits).map_err(|refused_too| {
                Error::new(format!(
                    "cannot confine the servers ({refused}; {refused_too}): run as root, or as a user \
                     with a systemd of their own (loginctl enable-linger), or without --cpu and --memory"
                ))
            })
        })
    }

    fn with(kind: Kind) -> Enclosure {
        Enclosure {
            confinement: Confinement::new(kind),
            door: Door::Folders(Vec::new()),
            holder: None,
            refusal: Arc::default(),
            unlimited: Vec::new(),
        }
    }

    /// With a new folder of this name in each of these.
    fn in_folders(kind: Kind, parents: &[PathBuf], name: &str) -> Result<Enclosure> {
        let mut enclosure = Enclosure::with(kind);
        for parent in parents {
            remove_abandoned(parent);
            let folder = parent.join(name);
            create(&folder)?;
            enclosure.confinement.folders.push(folder);
        }
        Ok(enclosure)
    }

    pub fn figures(&self) -> Confinement {
        self.confinement.clone()
    }

    pub fn folders(&self) -> &[PathBuf] {
        &self.confinement.folders
    }

    /// What it could not confine, for the report.
    pub fn caveats(&self) -> Vec<String> {
        let mut caveats = vec![
            "Pages of files that were in memory before the servers read them count towards no limit."
                .to_owned(),
        ];
        caveats.extend(self.unlimited.iter().map(|what| {
            format!("The machine gave no control over {what}: the box did not confine it.")
        }));
        caveats
    }

    /// Has a command's program begin in the box. What it starts is in there too.
    pub fn confine(&self, command: &mut Command) -> Result<()> {
        let (door, refusal) = (self.door.clone(), Arc::clone(&self.refusal));
        process::admit_first(command, move |pid| match door.let_in(pid) {
            Ok(()) => true,
            Err(error) => {
                let said = format!("cannot confine a process: {error}");
                *refusal.lock().expect("nobody panics with it") = Some(said);
                false
            }
        })
    }

    /// Why a command that was confined did not begin.
    pub fn refusal(&self) -> Option<Error> {
        let said = self.refusal.lock().expect("nobody panics with it").take();
        said.map(Error::new)
    }
}

impl Door {
    fn let_in(&self, pid: u32) -> Result<()> {
        match self {
            Door::Scope(scope) => scope.attach(pid),
            Door::Folders(folders) => (folders.iter())
                .try_for_each(|folder| write(&folder.join(MEMBERS), &pid.to_string())),
        }
    }
}

impl Drop for Enclosure {
    /// Whoever is still in it now was left behind by its parent: the group ends with its owner.
    fn drop(&mut self) {
        drop(self.holder.take());
        for folder in self.folders() {
            end(folder);
        }
    }
}

const PREFIX: &str = "onebox-";
const MEMBERS: &str = "cgroup.procs";

/// Boxes of runs that were killed.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = (name.strip_suffix(systemd::SUFFIX).unwrap_or(&name))
            .strip_prefix(PREFIX)
            .and_then(|pid| pid.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            end(&entry.path());
        }
    }
}

/// Kills whoever is in a control group, and removes it.
fn end(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            end(&entry.path());
        }
    }
    // systemd removes its own, and would never notice the end of one that is gone already.
    let is_systemd_s = folder.to_string_lossy().ends_with(systemd::SUFFIX);
    let is_gone = || match is_systemd_s {
        true => !folder.exists(),
        false => fs::remove_dir(folder).is_ok() || !folder.exists(),
    };
    let deadline = Instant::now() + STOP_LIMIT;
    while !is_gone() && Instant::now() < deadline {
        let members = fs::read_to_string(folder.join(MEMBERS)).unwrap_or_default();
        for pid in members.lines().filter_map(|pid| pid.parse().ok()) {
            // None is 0, which stands for a process out of sight, in another namespace.
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A killed process is gone when it has been reaped.
const STOP_LIMIT: Duration = Duration::from_secs(5);

fn create(folder: &Path) -> Result<()> {
    fs::create_dir(folder).map_err(|error| Error::new(format!("{}: {error}", folder.display())))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| Error::new(format!("{}: {error}", path.display())))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| Error::new(format!("{}: {error}", path.display())))
}
