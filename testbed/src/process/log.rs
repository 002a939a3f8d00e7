use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// More lines than any test looks at; a server that logs without end must not fill memory.
const LINES_KEPT: usize = 20_000;

/// What a process printed, both streams, line by line, as it comes.
#[derive(Debug, Clone, Default)]
pub struct Log(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<String>,
    open_streams: usize,
}

impl Log {
    pub(super) fn follow(&self, stream: impl Read + Send + 'static) {
        self.lock().open_streams += 1;
        let log = self.clone();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            let mut bytes = Vec::new();
            while reader.read_until(b'\n', &mut bytes).is_ok_and(|n| n > 0) {
                let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
                bytes.clear();
                let mut state = log.lock();
                if state.lines.len() == LINES_KEPT {
                    state.lines.pop_front();
                }
                state.lines.push_back(line);
                log.0.changed.notify_all();
            }
            log.lock().open_streams -= 1;
            log.0.changed.notify_all();
        });
    }

    pub fn lines(&self) -> Vec<String> {
        self.lock().lines.iter().cloned().collect()
    }

    pub fn text(&self) -> String {
        self.lines().join("\n")
    }

    /// The last few lines, for an error message.
    pub fn tail(&self) -> String {
        let lines = self.lines();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    /// Waits for a line that contains `text` and returns it.
    pub fn wait_for(&self, text: &str, limit: Duration) -> Result<String> {
        let deadline = Instant::now() + limit;
        let mut state = self.lock();
        loop {
            if let Some(line) = state.lines.iter().find(|line| line.contains(text)) {
                return Ok(line.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || state.open_streams == 0 {
                return Err(Error::new(format!("no line with {text:?} was printed")));
            }
            state = (self
                .0
                .changed
                .wait_timeout(state, left)
                .expect("a reader panicked"))
            .0;
        }
    }

    /// Waits until both streams are at their end, so that nothing said before the exit is
    /// missed; briefly, since a grandchild may hold them open.
    pub(super) fn drain(&self) {
        let limit = Duration::from_secs(1);
        let state = self.lock();
        let wait = self
            .0
            .changed
            .wait_timeout_while(state, limit, |s| s.open_streams > 0);
        drop(wait);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("a reader panicked")
    }
}
