use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use testbed::cache::workspace;
use testbed::process::{self, CpuTime};
use testbed::{Error, Result};

/// One core for the server, another for the generator.
pub struct Cores {
    pub server: usize,
    pub generator: usize,
}

impl Cores {
    /// Confines this process, and so the generators it starts, to the generator's core.
    pub fn take() -> Result<Self> {
        let cores = process::allowed_cores()?;
        let [server, .., generator] = cores[..] else {
            return Err(Error::new(
                "a measurement needs two cores: one for the server, one for the generator",
            ));
        };
        process::pin_this_process(&[generator])?;
        Ok(Cores { server, generator })
    }
}

/// Time the machine's cores spent, in ticks.
pub struct Ticks {
    all: u64,
    idle: u64,
    stolen: u64,
}

/// What else went on while something was measured, as shares of the machine's time.
#[derive(Debug, Clone, Copy)]
pub struct Noise {
    /// Taken by other machines on the same host.
    pub stolen_percent: f64,
    /// Taken by other processes of this one, and by the kernel on nobody's account.
    pub others_percent: f64,
}

impl Ticks {
    pub fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        // user nice system idle iowait irq softirq steal; guest time is part of user.
        let fields: Vec<u64> = (line.split_whitespace().skip(1).take(8))
            .filter_map(|field| field.parse().ok())
            .collect();
        Ticks {
            all: fields.iter().sum(),
            idle: fields.iter().skip(3).take(2).sum(),
            stolen: fields.get(7).copied().unwrap_or_default(),
        }
    }

    /// `known` is the CPU time of what is measured and of what measures.
    pub fn noise_since(&self, known: CpuTime) -> Noise {
        let now = Ticks::now();
        let all = now.all.saturating_sub(self.all).max(1) as f64;
        let stolen = now.stolen.saturating_sub(self.stolen) as f64;
        let idle = now.idle.saturating_sub(self.idle) as f64;
        let known = known.total().as_secs_f64() * TICKS_PER_S;
        Noise {
            stolen_percent: 100.0 * stolen / all,
            others_percent: 100.0 * (all - idle - stolen - known).max(0.0) / all,
        }
    }
}

/// The unit of `/proc/stat` on every Linux there is.
const TICKS_PER_S: f64 = 100.0;

/// What a reader must know to place the figures.
pub fn describe() -> Value {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    json!({
        "cpu": model.unwrap_or_default().trim_start_matches([' ', '\t', ':']),
        "cores": cpu.lines().filter(|line| line.starts_with("processor")).count(),
        "kernel": kernel.trim(),
        "rustc": first_line("rustc", &["--version"]),
        "postgres": first_line("postgres", &["--version"]),
        "revision": first_line("git", &["describe", "--always", "--dirty", "--abbrev=12"]),
    })
}

fn first_line(program: &str, args: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args).current_dir(workspace());
    let output = process::run(command).ok()?;
    output.lines().next().map(str::to_owned)
}
