//! What one kind of call asks of the database, over all workers. Counted once a group, never once
//! a call; shown among the metrics where these were asked for.

use std::sync::{Arc, Mutex, MutexGuard};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntGauge, Opts};

/// Up to the largest group there is.
const GROUP_SIZES: [f64; 13] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0, 2_048.0, 4_096.0,
];

pub struct Stats {
    call: &'static str,
    group_size: Histogram,
    queue_length: IntGauge,
    retries: IntCounter,
    connections_open: IntGauge,
    connections_made: IntCounter,
    /// Each queue's length, looked up when somebody wants to see it.
    queues: Mutex<Vec<QueueLength>>,
}

type QueueLength = Box<dyn Fn() -> usize + Send + Sync>;

/// What the counters stand at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Calls that were sent to the database.
    pub calls: u64,
    /// The statements or transactions they travelled in.
    pub groups: u64,
    /// Groups sent again because another transaction was in the way.
    pub retries: u64,
    /// Connections that are up.
    pub connections: u64,
    /// Connections made since the start.
    pub connections_made: u64,
}

impl Stats {
    pub(super) fn new(call: &'static str) -> Arc<Stats> {
        let build = || -> prometheus::Result<Stats> {
            let options = |name, help| Opts::new(name, help).const_label("call", call);
            let group_size = HistogramOpts::from(options(
                "store_group_size",
                "Calls that shared one transaction or one query.",
            ))
            .buckets(GROUP_SIZES.to_vec());
            Ok(Stats {
                call,
                group_size: Histogram::with_opts(group_size)?,
                queue_length: IntGauge::with_opts(options(
                    "store_queue_length",
                    "Calls that wait for the database.",
                ))?,
                retries: IntCounter::with_opts(options(
                    "store_retries_total",
                    "Groups sent again because another transaction was in the way.",
                ))?,
                connections_open: IntGauge::with_opts(options(
                    "store_connections_open",
                    "Connections to the database that are up.",
                ))?,
                connections_made: IntCounter::with_opts(options(
                    "store_connections_made_total",
                    "Connections to the database made.",
                ))?,
                queues: Mutex::default(),
            })
        };
        Arc::new(build().expect("the metrics' names and buckets are valid"))
    }

    pub fn call(&self) -> &'static str {
        self.call
    }

    pub fn counts(&self) -> Counts {
        Counts {
            calls: self.group_size.get_sample_sum() as u64,
            groups: self.group_size.get_sample_count(),
            retries: self.retries.get(),
            connections: self.connections_open.get() as u64,
            connections_made: self.connections_made.get(),
        }
    }

    pub(super) fn watch_queue(&self, length: impl Fn() -> usize + Send + Sync + 'static) {
        self.queues().push(Box::new(length));
    }

    pub(super) fn group(&self, calls: usize) {
        self.group_size.observe(calls as f64);
    }

    pub(super) fn retried(&self) {
        self.retries.inc();
    }

    pub(super) fn connected(&self) {
        self.connections_open.inc();
        self.connections_made.inc();
    }

    pub(super) fn disconnected(&self) {
        self.connections_open.dec();
    }

    fn queues(&self) -> MutexGuard<'_, Vec<QueueLength>> {
        self.queues
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn collectors(&self) -> [&dyn Collector; 5] {
        [
            &self.group_size,
            &self.queue_length,
            &self.retries,
            &self.connections_open,
            &self.connections_made,
        ]
    }
}

/// As metrics.
pub struct Shown(pub Arc<Stats>);

impl Collector for Shown {
    fn desc(&self) -> Vec<&Desc> {
        let collectors = self.0.collectors();
        collectors.iter().flat_map(|one| one.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let waiting: usize = self.0.queues().iter().map(|length| length()).sum();
        self.0.queue_length.set(waiting as i64);
        let collectors = self.0.collectors();
        collectors.iter().flat_map(|one| one.collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_counted_with_the_calls_in_them() {
        let stats = Stats::new("feed");
        for calls in [1, 2, 16_384] {
            stats.group(calls);
        }
        let counts = stats.counts();
        assert_eq!((counts.calls, counts.groups), (16_387, 3));
    }

    #[test]
    fn kinds_of_calls_stand_side_by_side_with_the_length_of_all_their_queues() {
        let registry = prometheus::Registry::new();
        for call in ["post", "feed"] {
            let stats = Stats::new(call);
            stats.watch_queue(|| 3);
            stats.watch_queue(|| 4);
            registry.register(Box::new(Shown(stats))).unwrap();
        }
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&registry.gather())
            .unwrap();
        for call in ["post", "feed"] {
            let line = format!("store_queue_length{{call=\"{call}\"}} 7\n");
            assert!(text.contains(&line), "{text}");
        }
    }
}
