//! Counters of one kind of call, over all workers. Touched once a group, never once a call.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Group sizes are counted up to 1, 2, 4, … calls, the last bucket without a limit.
pub const GROUP_SIZE_BUCKETS: usize = 15;

#[derive(Default)]
pub struct Stats {
    calls: AtomicU64,
    group_sizes: [AtomicU64; GROUP_SIZE_BUCKETS],
    contended: AtomicU64,
    connections: AtomicU64,
    connections_made: AtomicU64,
    /// Each worker's queue.
    depths: Mutex<Vec<Box<dyn Fn() -> usize + Send + Sync>>>,
}

/// What the counters stand at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Calls that were sent to the database.
    pub calls: u64,
    /// The statements they travelled in.
    pub groups: u64,
    /// Those of up to 2^n calls that are in no bucket before.
    pub group_sizes: [u64; GROUP_SIZE_BUCKETS],
    /// Statements sent again because another transaction was in the way.
    pub contended: u64,
    /// Connections that are up.
    pub connections: u64,
    /// Connections made since the start.
    pub connections_made: u64,
    /// Calls that wait for a connection now.
    pub queued: u64,
}

impl Stats {
    pub fn counts(&self) -> Counts {
        let group_sizes = self.group_sizes.each_ref().map(|count| count.load(Relaxed));
        let depths = self
            .depths
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        Counts {
            calls: self.calls.load(Relaxed),
            groups: group_sizes.iter().sum(),
            group_sizes,
            contended: self.contended.load(Relaxed),
            connections: self.connections.load(Relaxed),
            connections_made: self.connections_made.load(Relaxed),
            queued: depths.iter().map(|depth| depth() as u64).sum(),
        }
    }

    pub(super) fn watch(&self, depth: impl Fn() -> usize + Send + Sync + 'static) {
        let mut depths = self
            .depths
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        depths.push(Box::new(depth));
    }

    pub(super) fn group(&self, calls: usize) {
        let bucket = calls.next_power_of_two().ilog2() as usize;
        self.calls.fetch_add(calls as u64, Relaxed);
        self.group_sizes[bucket.min(GROUP_SIZE_BUCKETS - 1)].fetch_add(1, Relaxed);
    }

    pub(super) fn contended(&self) {
        self.contended.fetch_add(1, Relaxed);
    }

    pub(super) fn connected(&self) {
        self.connections.fetch_add(1, Relaxed);
        self.connections_made.fetch_add(1, Relaxed);
    }

    pub(super) fn disconnected(&self) {
        self.connections.fetch_sub(1, Relaxed);
    }
}

impl fmt::Debug for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counts().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_counted_by_size() {
        let stats = Stats::default();
        for calls in [1, 2, 3, 4, 5, 8, 16_384, 99_999] {
            stats.group(calls);
        }
        let counts = stats.counts();
        assert_eq!(counts.group_sizes[..5], [1, 1, 2, 2, 0]);
        assert_eq!(counts.group_sizes[GROUP_SIZE_BUCKETS - 1], 2);
        assert_eq!((counts.calls, counts.groups), (116_406, 8));
    }
}
