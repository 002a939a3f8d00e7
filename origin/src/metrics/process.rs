//! The process itself, under the names that every Prometheus client gives it.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{Counter, IntGauge};
use rustix::param::page_size;
use rustix::time::{ClockId, clock_gettime};

use super::Register;

pub struct Process {
    cpu_s: Counter,
    resident_memory_bytes: IntGauge,
    open_files: IntGauge,
    max_files: IntGauge,
    threads: IntGauge,
}

impl Process {
    pub fn new(register: &Register<'_>) -> prometheus::Result<Process> {
        let start_s = register.gauge(
            "process_start_time_seconds",
            "When the process started, in seconds since 1970.",
        )?;
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH);
        start_s.set(now_s.map_or(0, |since| since.as_secs() as i64));
        Ok(Process {
            cpu_s: register.add(Counter::new(
                "process_cpu_seconds_total",
                "CPU time used, user and system.",
            )?)?,
            resident_memory_bytes: register
                .gauge("process_resident_memory_bytes", "Memory in RAM.")?,
            open_files: register.gauge("process_open_fds", "Open file descriptors.")?,
            max_files: register.gauge("process_max_fds", "The limit of open file descriptors.")?,
            threads: register.gauge("process_threads", "Threads.")?,
        })
    }

    /// What cannot be read keeps its last value.
    pub fn update(&self) {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let cpu_s = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
        // Two readers at once: the clock of the one may be behind what the other has added.
        self.cpu_s.inc_by((cpu_s - self.cpu_s.get()).max(0.0));
        if let Some(pages) = resident_pages() {
            self.resident_memory_bytes.set(pages * page_size() as i64);
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            // One of them reads this folder.
            self.open_files.set(files.count() as i64 - 1);
        }
        if let Ok((max_files, _)) = rlimit::Resource::NOFILE.get() {
            self.max_files.set(max_files as i64);
        }
        if let Ok(threads) = fs::read_dir("/proc/self/task") {
            self.threads.set(threads.count() as i64);
        }
    }
}

fn resident_pages() -> Option<i64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    statm.split_ascii_whitespace().nth(1)?.parse().ok()
}
