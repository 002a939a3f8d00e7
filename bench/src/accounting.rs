//! Who used the CPU: every process by its role, and whether the shares add up.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use testbed::postgres;
use testbed::process::{self, CpuTime, Stat};

use crate::confine::Confinement;

/// What a process tree is for.
#[derive(Debug, Clone)]
pub struct Role {
    pub name: &'static str,
    pub root: u32,
    /// On the box whose limits are asked about; a generator or an edge is not.
    pub is_on_box: bool,
}

/// CPU time of a role, in microseconds.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Used {
    pub user_us: u64,
    pub system_us: u64,
}

impl Used {
    pub fn total_us(self) -> u64 {
        self.user_us + self.system_us
    }

    fn add(&mut self, time: CpuTime) {
        self.user_us += time.user.as_micros() as u64;
        self.system_us += time.system.as_micros() as u64;
    }

    fn since(self, earlier: Used) -> Used {
        Used {
            user_us: self.user_us.saturating_sub(earlier.user_us),
            system_us: self.system_us.saturating_sub(earlier.system_us),
        }
    }
}

/// Processes of the machine that have no part in the run.
pub const OTHERS: &str = "other processes";
pub const KERNEL_THREADS: &str = "kernel threads";
/// This program: it samples and shows progress.
pub const BENCH: &str = "bench";
pub const GENERATOR: &str = "generator";

const KTHREADD: u32 = 2;
const PSEUDO_FILE_TICKS_PER_S: u64 = 100;

/// Everything as it stood at one moment.
#[derive(Debug, Clone)]
pub struct Sample {
    at: Instant,
    roles: BTreeMap<String, Used>,
    box_us: Option<u64>,
    machine: Ticks,
    flushes: u64,
}

/// What was used between two samples.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Usage {
    pub seconds: f64,
    pub roles: BTreeMap<String, Used>,
    /// The sum of the roles that are on the box.
    pub box_roles_us: u64,
    /// What the kernel counted for the box as a whole, where it has a control group.
    pub box_us: Option<u64>,
    /// By how much the two differ.
    pub box_difference_percent: Option<f64>,
    /// All cores' time that was not idle, and the part of it on no process's account:
    /// interrupts, mostly.
    pub machine_busy_us: u64,
    pub machine_unaccounted_us: i64,
    pub machine_interrupts_us: u64,
    pub machine_steal_us: u64,
    pub machine_cores: usize,
    pub disk_flushes: u64,
}

/// How much memory and how many sockets there were.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Gauges {
    pub box_memory_bytes: Option<u64>,
    /// Resident, by role; pages that processes share are counted in each.
    pub resident_bytes: BTreeMap<String, u64>,
    pub tcp_sockets: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Ticks {
    all: u64,
    idle: u64,
    interrupts: u64,
    steal: u64,
}

pub struct Accounts {
    roles: Vec<Role>,
    confinement: Option<Confinement>,
    titles: HashMap<u32, &'static str>,
    cores: usize,
}

impl Accounts {
    pub fn new(roles: Vec<Role>, confinement: Option<Confinement>) -> Self {
        Accounts {
            roles,
            confinement,
            titles: HashMap::new(),
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
        }
    }

    pub fn sample(&mut self) -> Sample {
        let processes = process::all();
        let mut roles: BTreeMap<String, Used> = BTreeMap::new();
        for (pid, stat) in &processes {
            let (name, is_server_parent) = self.role_of(*pid, &processes);
            let used = roles.entry(name.to_owned()).or_default();
            used.add(stat.own);
            // Backends come and go; what the gone ones used is on their postmaster's account.
            let name = if is_server_parent {
                POSTGRES_BACKENDS
            } else {
                name
            };
            roles
                .entry(name.to_owned())
                .or_default()
                .add(stat.ended_children);
        }
        Sample {
            at: Instant::now(),
            roles,
            box_us: (self.confinement.as_ref()).and_then(Confinement::cpu_us),
            machine: Ticks::now(),
            flushes: disk_flushes(),
        }
    }

    pub fn gauges(&self) -> Gauges {
        let mut resident_bytes: BTreeMap<String, u64> = BTreeMap::new();
        for role in &self.roles {
            let bytes: u64 = process::tree(role.root).into_iter().map(resident).sum();
            *resident_bytes.entry(role.name.to_owned()).or_default() += bytes;
        }
        Gauges {
            box_memory_bytes: (self.confinement.as_ref()).and_then(Confinement::memory_bytes),
            resident_bytes,
            tcp_sockets: tcp_sockets(),
        }
    }

    /// What is used from `earlier` to `later`.
    pub fn between(&self, earlier: &Sample, later: &Sample) -> Usage {
        let roles: BTreeMap<String, Used> = (later.roles.iter())
            .map(|(name, used)| {
                let before = earlier.roles.get(name).copied().unwrap_or_default();
                (name.clone(), used.since(before))
            })
            .filter(|(_, used)| used.total_us() > 0)
            .collect();
        let all_roles_us: u64 = roles.values().map(|used| used.total_us()).sum();
        let box_roles_us = (roles.iter())
            .filter(|(name, _)| self.is_on_box(name))
            .map(|(_, used)| used.total_us())
            .sum();
        let box_us = match (earlier.box_us, later.box_us) {
            (Some(earlier), Some(later)) => Some(later.saturating_sub(earlier)),
            _ => None,
        };
        let us = |ticks: u64| ticks * 1_000_000 / PSEUDO_FILE_TICKS_PER_S;
        let ticks = |field: fn(&Ticks) -> u64| {
            us(field(&later.machine).saturating_sub(field(&earlier.machine)))
        };
        let busy = ticks(|t| t.all).saturating_sub(ticks(|t| t.idle) + ticks(|t| t.steal));
        Usage {
            seconds: later.at.duration_since(earlier.at).as_secs_f64(),
            box_roles_us,
            box_us,
            box_difference_percent: box_us
                .map(|total| 100.0 * (total as f64 - box_roles_us as f64) / (total.max(1)) as f64),
            machine_busy_us: busy,
            machine_unaccounted_us: busy as i64 - all_roles_us as i64,
            machine_interrupts_us: ticks(|t| t.interrupts),
            machine_steal_us: ticks(|t| t.steal),
            machine_cores: self.cores,
            disk_flushes: later.flushes.saturating_sub(earlier.flushes),
            roles,
        }
    }

    /// Which of the roles used are the box's.
    pub fn on_box(&self, usage: &Usage) -> Vec<String> {
        let names = usage.roles.keys().filter(|name| self.is_on_box(name));
        names.cloned().collect()
    }

    fn is_on_box(&self, name: &str) -> bool {
        let is_postgres = name.starts_with(POSTGRES);
        (self.roles.iter()).any(|role| {
            role.is_on_box && (role.name == name || (is_postgres && role.name == POSTGRES))
        })
    }

    /// The role, and whether the process is a PostgreSQL postmaster.
    fn role_of(&mut self, pid: u32, processes: &HashMap<u32, Stat>) -> (&'static str, bool) {
        let me = std::process::id();
        let mut at = pid;
        // Bounded, should the table change while it is read.
        for _ in 0..64 {
            let role = self.roles.iter().find(|role| role.root == at);
            if let Some(name) = role.map(|role| role.name) {
                return match name {
                    POSTGRES => (self.postgres_part(pid, at), pid == at),
                    name => (name, false),
                };
            }
            if at == me {
                return (BENCH, false);
            }
            if at == KTHREADD {
                return (KERNEL_THREADS, false);
            }
            match processes.get(&at) {
                Some(stat) if stat.parent > 1 => at = stat.parent,
                _ => break,
            }
        }
        (OTHERS, false)
    }

    fn postgres_part(&mut self, pid: u32, postmaster: u32) -> &'static str {
        if pid == postmaster {
            return POSTGRES_OTHER;
        }
        if let Some(title) = self.titles.get(&pid) {
            return title;
        }
        let title = process::command_line(pid).unwrap_or_default();
        let part = match postgres::Kind::of(&title) {
            postgres::Kind::Backend => POSTGRES_BACKENDS,
            postgres::Kind::WalWriter => "postgres wal writer",
            postgres::Kind::Checkpointer | postgres::Kind::BackgroundWriter => {
                "postgres page writers"
            }
            postgres::Kind::Autovacuum => "postgres autovacuum",
            // It may not have given itself a title yet: ask again.
            postgres::Kind::Postmaster | postgres::Kind::Other => return POSTGRES_OTHER,
        };
        self.titles.insert(pid, part);
        part
    }
}

pub const POSTGRES: &str = "postgres";
const POSTGRES_BACKENDS: &str = "postgres backends";
const POSTGRES_OTHER: &str = "postgres others";

impl Usage {
    /// Of the box, in shares of one core.
    pub fn box_cores(&self) -> f64 {
        self.box_roles_us as f64 / 1e6 / self.seconds.max(1e-9)
    }

    pub fn role_us(&self, name: &str) -> u64 {
        self.roles.get(name).map_or(0, |used| used.total_us())
    }
}

impl Ticks {
    /// user nice system idle iowait irq softirq steal; guest time is part of user.
    fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let fields: Vec<u64> = (line.split_whitespace().skip(1).take(8))
            .filter_map(|field| field.parse().ok())
            .collect();
        let field = |at: usize| fields.get(at).copied().unwrap_or_default();
        Ticks {
            all: fields.iter().sum(),
            idle: field(3) + field(4),
            interrupts: field(5) + field(6),
            steal: field(7),
        }
    }
}

/// Completed flushes of every disk; partitions pass theirs on.
fn disk_flushes() -> u64 {
    let text = fs::read_to_string("/proc/diskstats").unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_whitespace().nth(18)?.parse::<u64>().ok())
        .sum()
}

fn resident(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages: u64 = (text.split_whitespace().nth(1))
        .and_then(|pages| pages.parse().ok())
        .unwrap_or_default();
    pages * rustix::param::page_size() as u64
}

/// `TCP: inuse 12 orphan 0 tw 3 alloc 14 mem 1`
fn tcp_sockets() -> u64 {
    let text = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("TCP: inuse "))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or_default()
}
