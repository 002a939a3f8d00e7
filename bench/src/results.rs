//! What a run leaves behind: one JSON file with all that is needed to draw it again.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use testbed::{Error, Result};

use crate::accounting::{Gauges, Usage};
use crate::confine::Limits;
use crate::engine::{Load, Second, Summary};
use crate::generator::Engine;
use crate::judge::Marks;
use crate::machine::Machine;

pub const FORMAT: u32 = 1;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Results {
    pub format: u32,
    /// `run`, `search`, `open`, `compare`, `save`.
    pub command: String,
    pub started_at: String,
    pub machine: Machine,
    pub configuration: Configuration,
    pub caveats: Vec<String>,
    pub levels: Vec<Level>,
    /// The score of a search, by topology.
    pub scores: BTreeMap<String, Score>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Configuration {
    pub engine: Engine,
    pub dataset: String,
    pub limits: Option<Limits>,
    pub confined_by: Option<String>,
    pub cores_on_box: Vec<usize>,
    pub cores_off_box: Vec<usize>,
    pub marks: Marks,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Score {
    /// `users` or `requests/s`.
    pub unit: String,
    /// The most users, or requests a second, that passed.
    pub passed: f64,
    /// The least that failed.
    pub failed: Option<f64>,
}

/// One load on one topology.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Level {
    pub topology: String,
    pub round: u32,
    pub load: Load,
    /// Why it failed; empty when it passed.
    pub faults: Vec<String>,
    pub caveats: Vec<String>,
    pub summary: Summary,
    /// The roles that count as the box's.
    pub on_box: Vec<String>,
    /// Over the hold.
    pub usage: Usage,
    /// Requests answered over the same time.
    pub requests_in_hold: u64,
    pub requests_per_s: f64,
    /// User and system time of everything on the box, by request.
    pub cpu_us_per_request: f64,
    /// How many of the users one whole core would carry at that cost. A model.
    pub users_per_core: f64,
    pub generator_percent: f64,
    pub times_throttled: Option<u64>,
    pub gauges: Gauges,
    pub seconds: Vec<Row>,
}

/// One second: the requests, and who used how many cores meanwhile.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    #[serde(flatten)]
    pub requests: Second,
    pub cores: BTreeMap<String, f64>,
    /// The part of it that was system time.
    #[serde(default)]
    pub system_cores: BTreeMap<String, f64>,
    pub unaccounted_cores: f64,
    pub steal_cores: f64,
    pub box_memory_bytes: Option<u64>,
    pub tcp_sockets: u64,
    pub disk_flushes: u64,
}

impl Level {
    pub fn passed(&self) -> bool {
        self.faults.is_empty()
    }
}

impl Results {
    /// Whether it passed, and no search found out later that it does not last.
    pub fn lasts(&self, level: &Level) -> bool {
        let score = self.scores.get(&level.topology);
        level.passed() && score.is_none_or(|score| level.load.shape.level() <= score.passed)
    }

    /// Written beside and renamed, so that a file is whole or not there.
    pub fn write(&self, path: &Path) -> Result<()> {
        let writing = |error: &dyn std::fmt::Display| {
            Error::new(format!("cannot write {}: {error}", path.display()))
        };
        let text = serde_json::to_string(self).map_err(|error| writing(&error))?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| writing(&error))?;
        }
        let part = path.with_extension("part");
        fs::write(&part, text)
            .and_then(|()| fs::rename(&part, path))
            .map_err(|error| writing(&error))
    }

    pub fn read(path: &Path) -> Result<Results> {
        let reading = |error: &dyn std::fmt::Display| {
            Error::new(format!("{} holds no results: {error}", path.display()))
        };
        let text = fs::read(path).map_err(|error| reading(&error))?;
        let results: Results = serde_json::from_slice(&text).map_err(|error| reading(&error))?;
        match results.format {
            FORMAT => Ok(results),
            other => Err(reading(&format!(
                "format {other}, this program reads {FORMAT}"
            ))),
        }
    }
}
