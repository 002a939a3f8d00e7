//! What a reader must know of the machine to place the figures.

use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use testbed::{cache, process};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    pub rustc: Option<String>,
    pub postgres: Option<String>,
    pub nginx: Option<String>,
    pub node: Option<String>,
    pub k6: Option<String>,
    #[serde(default)]
    pub workerd: Option<String>,
    pub revision: Option<String>,
}

impl Machine {
    pub fn describe() -> Machine {
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total_kb: u64 = (memory.lines())
            .find_map(|line| line.strip_prefix("MemTotal:"))
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .unwrap_or_default();
        let postgres = testbed::postgres::Programs::find().ok();
        let postgres = postgres.and_then(|programs| programs.major_version().ok());
        Machine {
            cpu: model
                .unwrap_or_default()
                .trim_start_matches([' ', '\t', ':'])
                .to_owned(),
            cores: cpu
                .lines()
                .filter(|line| line.starts_with("processor"))
                .count(),
            memory_bytes: total_kb * 1024,
            kernel: kernel.trim().to_owned(),
            rustc: first_line("rustc", &["--version"]),
            postgres: postgres.map(|version| format!("PostgreSQL {version}")),
            nginx: first_line("/usr/sbin/nginx", &["-v"]),
            node: first_line("node", &["--version"]),
            k6: first_line("k6", &["version"]),
            workerd: first_line("node_modules/.bin/workerd", &["--version"]),
            revision: first_line("git", &["describe", "--always", "--dirty", "--abbrev=12"]),
        }
    }
}

/// Some print their version on stderr.
fn first_line(program: &str, args: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args);
    // Gone where a built bench was copied to.
    if cache::workspace().is_dir() {
        command.current_dir(cache::workspace());
    }
    command.stdin(std::process::Stdio::null());
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines().next().map(|line| line.trim().to_owned())
}

/// Now, in the one time format of the project.
pub fn now() -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    shared::timestamp::format_ms(now.as_millis() as i64)
}

/// Confines this process, and so the generators it starts, to these cores.
pub fn keep_to(cores: &[usize]) -> testbed::Result<()> {
    process::pin_this_process(cores)
}
