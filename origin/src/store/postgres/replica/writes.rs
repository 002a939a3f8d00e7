use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};

use super::Lsn;

const SLOTS: usize = 1_024;

/// Up to where a replica must have replayed to show what this origin has written: for the feed,
/// which nearly every write changes, and for single posts. Posts share slots, which only makes a
/// replica wait for a neighbour's write now and then, and nothing ever has to be forgotten.
pub struct Writes {
    acknowledged: AtomicU64,
    feed: AtomicI64,
    posts: Box<[AtomicI64; SLOTS]>,
}

impl Default for Writes {
    fn default() -> Writes {
        Writes {
            acknowledged: AtomicU64::default(),
            feed: AtomicI64::default(),
            posts: Box::new([const { AtomicI64::new(0) }; SLOTS]),
        }
    }
}

impl Writes {
    pub fn committed(&self, lsn: Lsn, post_ids: impl Iterator<Item = i64>) {
        for id in post_ids {
            self.slot(id).fetch_max(lsn, SeqCst);
        }
        self.feed.fetch_max(lsn, SeqCst);
        self.acknowledged.fetch_add(1, SeqCst);
    }

    pub fn feed(&self) -> Lsn {
        self.feed.load(SeqCst)
    }

    pub fn post(&self, id: i64) -> Lsn {
        self.slot(id).load(SeqCst)
    }

    /// How many groups of writes have been acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(SeqCst)
    }

    fn slot(&self, id: i64) -> &AtomicI64 {
        &self.posts[id as usize % SLOTS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_asked_of_its_post_and_of_the_feed_and_never_of_less() {
        let writes = Writes::default();
        writes.committed(200, [7, 8].into_iter());
        // Another connection's commit, noted late.
        writes.committed(100, [8].into_iter());
        assert_eq!(
            (writes.post(7), writes.post(8), writes.feed()),
            (200, 200, 200)
        );
        assert_eq!(writes.post(9), 0);
        assert_eq!(writes.post(7 + SLOTS as i64), 200);
        assert_eq!(writes.acknowledged(), 2);
    }
}
