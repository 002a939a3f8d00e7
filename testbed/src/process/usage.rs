//! What processes cost, from `/proc`.

use std::collections::HashMap;
use std::fs;
use std::iter::Sum;
use std::ops::{Add, Sub};
use std::time::Duration;

use crate::error::Context;
use crate::{Error, Result};

/// CPU time of whole processes: every thread, those that have ended too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    pub user: Duration,
    pub system: Duration,
}

impl CpuTime {
    pub fn total(&self) -> Duration {
        self.user + self.system
    }
}

impl Add for CpuTime {
    type Output = CpuTime;
    fn add(self, other: CpuTime) -> CpuTime {
        CpuTime {
            user: self.user + other.user,
            system: self.system + other.system,
        }
    }
}

/// Never below zero: a process that ended in between takes its time with it.
impl Sub for CpuTime {
    type Output = CpuTime;
    fn sub(self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

impl Sum for CpuTime {
    fn sum<I: Iterator<Item = CpuTime>>(times: I) -> CpuTime {
        times.fold(CpuTime::default(), CpuTime::add)
    }
}

/// A process as `/proc/PID/stat` shows it.
#[derive(Debug, Clone, Copy)]
pub struct Stat {
    pub parent: u32,
    pub own: CpuTime,
    /// Of children that have ended and been waited for, and of theirs.
    pub ended_children: CpuTime,
}

/// Every process of the machine, in one pass.
pub fn all() -> HashMap<u32, Stat> {
    (pids().into_iter())
        .filter_map(|pid| Some((pid, stat(pid)?)))
        .collect()
}

fn stat(pid: u32) -> Option<Stat> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name stands in parentheses and may itself hold blanks and parentheses.
    let fields: Vec<&str> = line[line.rfind(')')? + 1..].split_whitespace().collect();
    // `fields[0]` is the third field of proc(5), the state.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    let time = |field: usize| {
        Some(Duration::from_nanos(
            number(field)? * 1_000_000_000 / ticks_per_second,
        ))
    };
    Some(Stat {
        parent: number(4)? as u32,
        own: CpuTime {
            user: time(14)?,
            system: time(15)?,
        },
        ended_children: CpuTime {
            user: time(16)?,
            system: time(17)?,
        },
    })
}

fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

pub fn parent(pid: u32) -> Option<u32> {
    stat(pid).map(|stat| stat.parent)
}

/// The process and all its living descendants.
pub fn tree(root: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in pids() {
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    found.retain(|pid| fs::exists(format!("/proc/{pid}")).unwrap_or(false));
    found
}

/// CPU time of one process; zero once it is gone.
pub fn cpu_time(pid: u32) -> CpuTime {
    stat(pid).map(|stat| stat.own).unwrap_or_default()
}

/// CPU time of several processes together.
pub fn cpu_time_of(pids: &[u32]) -> CpuTime {
    pids.iter().map(|pid| cpu_time(*pid)).sum()
}

/// CPU time of a process and of everything it ever started that it waited for or that
/// still runs: PostgreSQL's backends come and go, and what the gone ones used counts.
pub fn cpu_time_of_tree(root: u32) -> CpuTime {
    // A child that ends between two reads would be counted twice or not at all: read again
    // until no one came or went meanwhile.
    let mut before = tree(root);
    for _ in 0..10 {
        let time = (before.iter().filter_map(|pid| stat(*pid)))
            .map(|stat| stat.own + stat.ended_children)
            .sum();
        let after = tree(root);
        if before == after {
            return time;
        }
        before = after;
    }
    (before.iter().filter_map(|pid| stat(*pid)))
        .map(|stat| stat.own + stat.ended_children)
        .sum()
}

/// CPU time of the children of this process that have ended and been waited for.
pub fn cpu_time_of_ended_children() -> CpuTime {
    stat(std::process::id())
        .map(|stat| stat.ended_children)
        .unwrap_or_default()
}

/// Memory of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Everything resident, shared pages counted in full.
    pub resident_bytes: u64,
    /// Shared pages counted by share.
    pub proportional_bytes: u64,
    /// Heap, stacks and the like: what no file stands behind.
    pub anonymous_bytes: u64,
}

pub fn memory(pid: u32) -> Result<Memory> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&path).context(|| format!("cannot read {path}"))?;
    let bytes = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        (kilobytes.and_then(|number| number.trim().parse::<u64>().ok()))
            .map(|number| number * 1024)
            .ok_or_else(|| Error::new(format!("{path} has no {name}")))
    };
    Ok(Memory {
        resident_bytes: bytes("Rss")?,
        proportional_bytes: bytes("Pss")?,
        anonymous_bytes: bytes("Anonymous")?,
    })
}

/// The command line, blanks between its words: PostgreSQL writes there what a process does.
pub fn command_line(pid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    Some(text.trim_end().to_owned())
}

/// Confines every thread of a process to these cores. Threads and children that it starts
/// later inherit that.
pub fn pin(pid: u32, cores: &[usize]) -> Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    let tasks = format!("/proc/{pid}/task");
    let threads = fs::read_dir(&tasks).context(|| format!("cannot read {tasks}"))?;
    for thread in threads.flatten() {
        let id = thread
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let id = id.and_then(rustix::thread::Pid::from_raw);
        match rustix::thread::sched_setaffinity(id, &set) {
            // The thread ended meanwhile.
            Err(rustix::io::Errno::SRCH) => {}
            result => result.context(|| format!("cannot confine {pid} to cores {cores:?}"))?,
        }
    }
    Ok(())
}

/// The cores this process may run on.
pub fn allowed_cores() -> Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)
        .context(|| "cannot tell which cores may be used".into())?;
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    Ok(all.filter(|core| set.is_set(*core)).collect())
}

pub fn pin_this_process(cores: &[usize]) -> Result<()> {
    pin(std::process::id(), cores)
}
