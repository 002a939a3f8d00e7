use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use testbed::cache::workspace;
use testbed::process;
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
    stolen: u64,
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
            stolen: fields.get(7).copied().unwrap_or_default(),
        }
    }

    /// The share of the time since then that another machine on this host took.
    pub fn stolen_percent_since(&self) -> f64 {
        let now = Ticks::now();
        let all = now.all.saturating_sub(self.all).max(1);
        100.0 * now.stolen.saturating_sub(self.stolen) as f64 / all as f64
    }
}

/// What a reader must know to place the figures.
pub fn describe() -> Value {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    json!({
        "cpu": model.unwrap_or_default().trim_start_matches([' ', '\t', ':']),
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
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
