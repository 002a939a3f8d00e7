//! How far a replica is behind, in time.
//!
//! PostgreSQL's own figure, the age of the last replayed transaction, grows on a primary that has
//! nothing to do. Here the primary is asked again and again what it has written; the newest of those
//! moments whose writes have all been replayed is how recent the replica is.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Lsn;

/// At `at` the primary had written `lsn`, or more by the time it answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub at: Instant,
    pub lsn: Lsn,
}

/// The primary's moments within the bound before the latest.
pub struct Moments {
    bound: Duration,
    kept: VecDeque<Moment>,
}

impl Moments {
    pub fn new(bound: Duration) -> Moments {
        let kept = VecDeque::new();
        Moments { bound, kept }
    }

    pub fn push(&mut self, moment: Moment) {
        // A primary that has less than before was restored from an older copy.
        if self.latest().is_some_and(|latest| latest.lsn > moment.lsn) {
            self.clear();
        }
        while (self.kept.front()).is_some_and(|oldest| oldest.at + self.bound <= moment.at) {
            self.kept.pop_front();
        }
        self.kept.push_back(moment);
    }

    pub fn clear(&mut self) {
        self.kept.clear();
    }

    pub fn latest(&self) -> Option<Moment> {
        self.kept.back().copied()
    }

    /// The latest moment that a replica at `replayed` shows in full. `None`: it is behind by more
    /// than the bound.
    pub fn shown_by(&self, replayed: Lsn) -> Option<Moment> {
        let mut latest_first = self.kept.iter().rev();
        latest_first.find(|moment| moment.lsn <= replayed).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(of: &[(u64, Lsn)]) -> (Instant, Moments) {
        let start = Instant::now();
        let mut moments = Moments::new(Duration::from_millis(500));
        for &(ms, lsn) in of {
            let at = start + Duration::from_millis(ms);
            moments.push(Moment { at, lsn });
        }
        (start, moments)
    }

    fn age_ms(of: &[(u64, Lsn)], replayed: Lsn) -> Option<u128> {
        let (_, moments) = moments(of);
        let shown = moments.shown_by(replayed)?;
        Some((moments.latest()?.at - shown.at).as_millis())
    }

    #[test]
    fn an_idle_primarys_replica_stays_recent_however_old_the_last_write_is() {
        let idle = [(0, 7), (100, 7), (200, 7), (10_000, 7)];
        assert_eq!(age_ms(&idle, 7), Some(0));
    }

    #[test]
    fn a_replica_is_as_old_as_the_first_moment_it_does_not_show() {
        let busy = [(0, 10), (100, 20), (200, 30)];
        assert_eq!(age_ms(&busy, 30), Some(0));
        assert_eq!(age_ms(&busy, 29), Some(100));
        assert_eq!(age_ms(&busy, 10), Some(200));
        assert_eq!(age_ms(&busy, 9), None);
    }

    #[test]
    fn beyond_the_bound_nothing_is_kept_and_nothing_is_recent() {
        let busy = [(0, 10), (100, 20), (600, 30)];
        assert_eq!(age_ms(&busy, 20), None);
        assert_eq!(moments(&busy).1.kept.len(), 1);
    }

    #[test]
    fn a_primary_restored_from_an_older_copy_starts_anew() {
        assert_eq!(age_ms(&[(0, 30), (100, 10)], 30), Some(0));
        assert_eq!(moments(&[(0, 30), (100, 10)]).1.kept.len(), 1);
    }
}
