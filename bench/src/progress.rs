//! What goes on, on stderr: one line that changes on a terminal, a line now and then elsewhere.

use std::io::{IsTerminal, Write};

use crate::engine::{Load, Second};

pub struct Progress {
    is_terminal: bool,
    title: String,
}

/// Between two lines where none can be overwritten.
const LINE_EVERY_S: u32 = 10;

impl Progress {
    pub fn new() -> Self {
        Progress {
            is_terminal: std::io::stderr().is_terminal(),
            title: String::new(),
        }
    }

    /// What the next level is: `alone:sqlite, 5000 users`.
    pub fn level(&mut self, title: String) {
        self.title = title;
    }

    pub fn say(&self, text: &str) {
        eprintln!("{text}");
    }

    pub fn second(&mut self, load: &Load, second: &Second) {
        if !self.is_terminal && !second.second.is_multiple_of(LINE_EVERY_S) {
            return;
        }
        let elapsed_s = f64::from(second.second);
        let left_s = (load.end().as_secs_f64() - elapsed_s).max(0.0);
        let phase = match elapsed_s {
            s if s <= load.ramp_up().as_secs_f64() => "ramp up",
            s if s <= load.hold_end().as_secs_f64() => "hold",
            s if s <= load.end().as_secs_f64() => "ramp down",
            _ => "last answers",
        };
        let line = format!(
            "{} · {phase} · {left_s:.0} s left · {} active · {} requests/s · p95 {:.1} ms so far · {} failed",
            self.title,
            second.users,
            second.requests,
            second.p95_so_far_us as f64 / 1000.0,
            second.failures_so_far,
        );
        let mut stderr = std::io::stderr();
        let _ = match self.is_terminal {
            true => write!(stderr, "\r\x1b[K{line}"),
            false => writeln!(stderr, "{line}"),
        };
    }

    pub fn end_of_level(&self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}
