//! What the kernel counted for a box.

use std::fs;
use std::path::PathBuf;

/// Where a box's figures are read.
#[derive(Debug, Clone)]
pub struct Confinement {
    kind: Kind,
    pub(super) folders: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One tree for each controller.
    V1,
    V2,
    /// Version 2, made by systemd.
    Systemd,
}

impl Confinement {
    pub(super) fn new(kind: Kind) -> Confinement {
        let folders = Vec::new();
        Confinement { kind, folders }
    }

    pub fn kind(&self) -> &'static str {
        match self.kind {
            Kind::V1 => "cgroup v1",
            Kind::V2 => "cgroup v2",
            Kind::Systemd => "systemd-run",
        }
    }

    pub(super) fn file(&self, name: &str) -> Option<PathBuf> {
        let mut files = self.folders.iter().map(|folder| folder.join(name));
        files.find(|file| file.exists())
    }

    /// CPU time of all that ever ran in it.
    pub fn cpu_us(&self) -> Option<u64> {
        match self.kind {
            Kind::V1 => Some(self.number("cpuacct.usage")? / 1000),
            Kind::V2 | Kind::Systemd => self.cpu_stat("usage_usec"),
        }
    }

    /// Processes' memory and the file cache they filled.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.number(match self.kind {
            Kind::V1 => "memory.usage_in_bytes",
            Kind::V2 | Kind::Systemd => "memory.current",
        })
    }

    /// How often its processes were held back for having used up their share.
    pub fn throttled(&self) -> Option<u64> {
        self.cpu_stat("nr_throttled")
    }

    fn cpu_stat(&self, name: &str) -> Option<u64> {
        let text = fs::read_to_string(self.file("cpu.stat")?).ok()?;
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let (_, number) = lines.find(|(found, _)| *found == name)?;
        number.trim().parse().ok()
    }

    fn number(&self, file: &str) -> Option<u64> {
        let text = fs::read_to_string(self.file(file)?).ok()?;
        text.trim().parse().ok()
    }
}
