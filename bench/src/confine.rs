//! The box: a share of one core and an amount of memory for the servers, by control groups.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use testbed::process::Signal;
use testbed::{Error, Result, process};

/// How big the box is.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Limits {
    pub cpu_percent: f64,
    pub memory_bytes: u64,
}

/// The quota is given out this often. Short, since a process that has used it up stands
/// still until the next: with the usual 100 ms a share of 20% would stall for 80.
const PERIOD_US: u64 = 10_000;

/// A control group of its own, removed with the value once its processes are gone.
#[derive(Debug)]
pub struct Enclosure {
    files: Confinement,
    limits: Limits,
    is_memory_limited: bool,
}

/// Where a box's figures are read.
#[derive(Debug, Clone)]
pub struct Confinement {
    version: Version,
    folders: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    /// One tree for each controller.
    V1,
    V2,
}

const ROOT: &str = "/sys/fs/cgroup";

impl Enclosure {
    pub fn new(limits: Limits) -> Result<Enclosure> {
        Self::new_in(Path::new(ROOT), limits).map_err(|error| {
            Error::new(format!(
                "cannot confine the servers ({error}): run as root on a machine with control \
                 groups, or without --cpu and --memory"
            ))
        })
    }

    fn new_in(root: &Path, limits: Limits) -> std::result::Result<Enclosure, String> {
        remove_abandoned(root);
        let name = format!("{PREFIX}{}", std::process::id());
        let (version, folders) = if root.join("cgroup.controllers").exists() {
            for controller in ["cpu", "memory"] {
                let controllers = read(&root.join("cgroup.controllers"))?;
                if !controllers.split_whitespace().any(|c| c == controller) {
                    return Err(format!("no {controller} controller"));
                }
                write(
                    &root.join("cgroup.subtree_control"),
                    &format!("+{controller}"),
                )?;
            }
            (Version::V2, vec![root.join(&name)])
        } else {
            let controllers = ["cpu", "cpuacct", "memory"];
            let mut folders: Vec<PathBuf> = controllers
                .iter()
                .map(|c| root.join(c).join(&name))
                .collect();
            // cpu and cpuacct are often one tree, by a link.
            folders.dedup_by_key(|folder| {
                let parent = folder.parent().unwrap_or(root);
                fs::canonicalize(parent).unwrap_or_else(|_| parent.to_owned())
            });
            (Version::V1, folders)
        };
        let files = Confinement { version, folders };
        let mut made = Enclosure {
            files,
            limits,
            is_memory_limited: true,
        };
        for folder in &made.files.folders {
            fs::create_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        made.set_limits()?;
        Ok(made)
    }

    fn set_limits(&mut self) -> std::result::Result<(), String> {
        let quota_us = (PERIOD_US as f64 * self.limits.cpu_percent / 100.0).round() as u64;
        let memory = self.limits.memory_bytes.to_string();
        match self.files.version {
            Version::V2 => {
                let set = |file: &str, text: &str| write(&self.files.folders[0].join(file), text);
                set("cpu.max", &format!("{quota_us} {PERIOD_US}"))?;
                set("memory.max", &memory)?;
                // Absent where the kernel has no swap.
                let _ = set("memory.swap.max", "0");
            }
            Version::V1 => {
                let find = |file: &str| self.files.file(file).ok_or(format!("no {file}"));
                write(&find("cpu.cfs_period_us")?, &PERIOD_US.to_string())?;
                write(&find("cpu.cfs_quota_us")?, &quota_us.to_string())?;
                let limit = find("memory.limit_in_bytes")?;
                self.is_memory_limited = write(&limit, &memory).is_ok();
                // No more with swap than without.
                if let Some(file) = self.files.file("memory.memsw.limit_in_bytes") {
                    let _ = write(&file, &memory);
                }
            }
        }
        Ok(())
    }

    pub fn figures(&self) -> Confinement {
        self.files.clone()
    }

    pub fn folders(&self) -> &[PathBuf] {
        &self.files.folders
    }

    /// What it could not confine, for the report.
    pub fn caveats(&self) -> Vec<String> {
        let mut caveats = vec![
            "Servers enter the box once they are up: memory they took before, and pages of files that \
             were in memory already, count towards no limit."
                .to_owned(),
        ];
        if !self.is_memory_limited {
            caveats
                .push("The kernel refused the memory limit: memory was not confined.".to_owned());
        }
        caveats
    }

    /// Puts a process and all that it has started into the box; what they start later is too.
    pub fn admit(&self, root: u32) -> Result<()> {
        // Until a look finds no one new: a process may be started in between.
        let mut admitted: Vec<u32> = Vec::new();
        loop {
            let mut tree = process::tree(root);
            tree.retain(|pid| !admitted.contains(pid));
            if tree.is_empty() {
                return Ok(());
            }
            for pid in tree {
                for folder in &self.files.folders {
                    let put = write(&folder.join("cgroup.procs"), &pid.to_string());
                    // It may have ended meanwhile.
                    if let Err(error) = put
                        && Path::new(&format!("/proc/{pid}")).exists()
                    {
                        return Err(Error::new(format!("cannot confine a process: {error}")));
                    }
                }
                admitted.push(pid);
            }
        }
    }
}

impl Drop for Enclosure {
    /// Whoever is still in it now was left behind by its parent: the group ends with its owner.
    fn drop(&mut self) {
        let deadline = Instant::now() + STOP_LIMIT;
        for folder in &self.files.folders {
            while fs::remove_dir(folder).is_err() && folder.exists() && Instant::now() < deadline {
                let left = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
                for pid in left.lines().filter_map(|pid| pid.parse().ok()) {
                    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                        let _ = rustix::process::kill_process(pid, Signal::KILL);
                    }
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// A killed process is gone when it has been reaped.
const STOP_LIMIT: Duration = Duration::from_secs(5);

impl Confinement {
    fn file(&self, name: &str) -> Option<PathBuf> {
        let mut files = self.folders.iter().map(|folder| folder.join(name));
        files.find(|file| file.exists())
    }

    pub fn kind(&self) -> &'static str {
        match self.version {
            Version::V1 => "cgroup v1",
            Version::V2 => "cgroup v2",
        }
    }

    /// CPU time of all that ever ran in it.
    pub fn cpu_us(&self) -> Option<u64> {
        match self.version {
            Version::V1 => Some(number(&self.file("cpuacct.usage")?)? / 1000),
            Version::V2 => {
                let text = fs::read_to_string(self.file("cpu.stat")?).ok()?;
                let line = text.lines().find_map(|l| l.strip_prefix("usage_usec "))?;
                line.trim().parse().ok()
            }
        }
    }

    /// Processes' memory and the file cache they filled.
    pub fn memory_bytes(&self) -> Option<u64> {
        let name = match self.version {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        };
        number(&self.file(name)?)
    }

    /// How often its processes were held back for having used up their share.
    pub fn throttled(&self) -> Option<u64> {
        let text = fs::read_to_string(self.file("cpu.stat")?).ok()?;
        let line = text.lines().find_map(|l| l.strip_prefix("nr_throttled "))?;
        line.trim().parse().ok()
    }
}

const PREFIX: &str = "onebox-";

/// Groups of runs that were killed.
fn remove_abandoned(root: &Path) {
    for folder in [
        root.to_owned(),
        root.join("cpu"),
        root.join("cpuacct"),
        root.join("memory"),
    ] {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let owner = name.strip_prefix(PREFIX);
            if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                // Refused while a process is in it.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn read(path: &Path) -> std::result::Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> std::result::Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
