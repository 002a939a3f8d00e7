use std::sync::Arc;
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, IntCounter, IntGaugeVec, Opts};

/// How the replica stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Recent enough: reads go to it.
    KeepsUp,
    /// Was recent enough when the primary went away: reads go on from it.
    Alone,
    /// Behind by more than the bound.
    Lags,
    /// Does not answer.
    Away,
    /// Is no replica of this primary.
    Refused,
}

impl State {
    const ALL: [State; 5] = [
        State::KeepsUp,
        State::Alone,
        State::Lags,
        State::Away,
        State::Refused,
    ];

    fn name(self) -> &'static str {
        match self {
            State::KeepsUp => "keeps_up",
            State::Alone => "alone",
            State::Lags => "lags",
            State::Away => "away",
            State::Refused => "refused",
        }
    }
}

/// The same for whoever watches, as metrics.
pub struct ReplicaStats {
    state: IntGaugeVec,
    lag_seconds: Gauge,
    passed_on: IntCounter,
}

impl ReplicaStats {
    pub(super) fn new() -> Arc<ReplicaStats> {
        let build = || -> prometheus::Result<ReplicaStats> {
            let state = Opts::new(
                "store_replica_state",
                "1 for how the replica stands: it is read from when it keeps up or is alone.",
            );
            Ok(ReplicaStats {
                state: IntGaugeVec::new(state, &["state"])?,
                lag_seconds: Gauge::new(
                    "store_replica_lag_seconds",
                    "How far the replica is behind at most; +Inf when beyond the bound or unknown.",
                )?,
                passed_on: IntCounter::new(
                    "store_replica_passed_on_total",
                    "Reads that were meant for the replica and went on to the primary.",
                )?,
            })
        };
        Arc::new(build().expect("the metrics' names are valid"))
    }

    pub(super) fn stands(&self, state: State, lag: Option<Duration>) {
        for other in State::ALL {
            let gauge = self.state.with_label_values(&[other.name()]);
            gauge.set(i64::from(other == state));
        }
        let lag_s = lag.map_or(f64::INFINITY, |lag| lag.as_secs_f64());
        self.lag_seconds.set(lag_s);
    }

    pub(super) fn passed_on(&self, calls: usize) {
        self.passed_on.inc_by(calls as u64);
    }

    /// `None`: nobody has looked yet.
    pub fn state(&self) -> Option<State> {
        let stands = |state: &State| self.state.with_label_values(&[state.name()]).get() == 1;
        State::ALL.into_iter().find(stands)
    }

    pub fn passed_on_count(&self) -> u64 {
        self.passed_on.get()
    }

    fn collectors(&self) -> [&dyn Collector; 3] {
        [&self.state, &self.lag_seconds, &self.passed_on]
    }
}

/// As metrics.
pub struct Shown(pub Arc<ReplicaStats>);

impl Collector for Shown {
    fn desc(&self) -> Vec<&Desc> {
        let collectors = self.0.collectors();
        collectors.iter().flat_map(|one| one.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let collectors = self.0.collectors();
        collectors.iter().flat_map(|one| one.collect()).collect()
    }
}
