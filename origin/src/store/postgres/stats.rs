//! Counters of one kind of call, over all workers. Touched once a group, never once a call.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
pub struct Stats {
    calls: AtomicU64,
    groups: AtomicU64,
    contended: AtomicU64,
    connections: AtomicU64,
    connections_made: AtomicU64,
}

/// What the counters stand at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Calls that were sent to the database.
    pub calls: u64,
    /// The statements they travelled in.
    pub groups: u64,
    /// Statements sent again because another transaction was in the way.
    pub contended: u64,
    /// Connections that are up.
    pub connections: u64,
    /// Connections made since the start.
    pub connections_made: u64,
}

impl Stats {
    pub fn counts(&self) -> Counts {
        Counts {
            calls: self.calls.load(Relaxed),
            groups: self.groups.load(Relaxed),
            contended: self.contended.load(Relaxed),
            connections: self.connections.load(Relaxed),
            connections_made: self.connections_made.load(Relaxed),
        }
    }

    pub(super) fn group(&self, calls: usize) {
        self.calls.fetch_add(calls as u64, Relaxed);
        self.groups.fetch_add(1, Relaxed);
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
