//! How far the seeding is: one bar on a terminal, a line per step elsewhere.

use std::{
    cell::Cell,
    io::{IsTerminal, stderr},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

use super::{Error, interrupt::Interrupt};

const ROWS_PER_TICK: u32 = 4_096;

pub struct Progress<'a> {
    display: Display,
    interrupt: &'a Interrupt,
    untold_rows: Cell<u32>,
}

enum Display {
    Bar(ProgressBar),
    Lines,
    Silent,
}

impl<'a> Progress<'a> {
    pub fn new(row_total: u64, interrupt: &'a Interrupt) -> Self {
        let display = if stderr().is_terminal() {
            let style = "{elapsed_precise} [{bar:40}] {human_pos}/{human_len} rows, {msg}";
            let style = ProgressStyle::with_template(style).expect("a valid template");
            let bar = ProgressBar::new(row_total).with_style(style);
            // The clock goes on while a long statement tells nothing.
            bar.enable_steady_tick(Duration::from_secs(1));
            Display::Bar(bar)
        } else {
            Display::Lines
        };
        Self {
            display,
            interrupt,
            untold_rows: Cell::new(0),
        }
    }

    pub fn silent(interrupt: &'a Interrupt) -> Self {
        Self {
            display: Display::Silent,
            interrupt,
            untold_rows: Cell::new(0),
        }
    }

    pub fn step(&self, name: &'static str) -> Result<(), Error> {
        match &self.display {
            Display::Bar(bar) => bar.set_message(name),
            Display::Lines => eprintln!("seed: {name}"),
            Display::Silent => {}
        }
        self.interrupt.check()
    }

    /// Counts one row; every now and then it also shows them and looks for an interruption.
    pub fn row(&self) -> Result<(), Error> {
        let rows = self.untold_rows.get() + 1;
        self.untold_rows.set(rows % ROWS_PER_TICK);
        if rows < ROWS_PER_TICK {
            return Ok(());
        }
        if let Display::Bar(bar) = &self.display {
            bar.inc(rows.into());
        }
        self.interrupt.check()
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }
}
