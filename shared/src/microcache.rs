//! When a cached value may be served, who fetches the next one, and who waits.
//!
//! One [`Slot`] holds one value. It reads no clock and waits for nobody: its user tells it the
//! time, fetches when told to, and reports how that went.
//!
//! ```text
//!  age of the value   0 ......... ttl ................ ttl + stale ............ ttl + stale_if_error
//!  answer             Fresh       Stale, and exactly   Fetch (one request),     Fetch, Wait; when that
//!                                 one Refresh          Wait (all others)        fails there is nothing left
//! ```
//!
//! Age counts from when the fetch that brought the value *started*: the value cannot be older
//! than that, whatever happened on the way.

/// The bounds. All in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// A value younger than this is served without a thought.
    pub ttl_ms: u64,
    /// For this long after `ttl_ms` it is served while one request refreshes it.
    pub stale_ms: u64,
    /// For this long after `ttl_ms` it is served when a fetch has failed.
    pub stale_if_error_ms: u64,
    /// A fetch that has not reported for this long is taken for lost, and replaced.
    pub lease_ms: u64,
    /// After a failure the source is left alone for this long. During it, and during the first
    /// attempt after it, readers get the stale value at once instead of waiting for a failure each.
    pub retry_after_ms: u64,
}

impl Policy {
    /// The age from which a value is not served while its source is well.
    pub const fn max_age_ms(&self) -> u64 {
        self.ttl_ms.saturating_add(self.stale_ms)
    }

    /// The age from which a value is not served at all.
    pub const fn max_age_on_error_ms(&self) -> u64 {
        let stale_ms = if self.stale_ms > self.stale_if_error_ms {
            self.stale_ms
        } else {
            self.stale_if_error_ms
        };
        self.ttl_ms.saturating_add(stale_ms)
    }
}

/// What to do with a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer<'a, V> {
    /// Serve this.
    Fresh(Aged<'a, V>),
    /// Serve this, and fetch a new value in the background.
    Refresh(Aged<'a, V>, Fetch),
    /// Serve this; somebody else is refreshing it, or its source is failing.
    Stale(Aged<'a, V>),
    /// Fetch a value, and serve that.
    Fetch(Fetch),
    /// Wait for the fetch that another request has started, and serve what it brings.
    Wait,
    /// The source failed a moment ago and nothing that is held may be served.
    Fail,
}

/// A value and its age.
#[derive(Debug, PartialEq, Eq)]
pub struct Aged<'a, V> {
    pub value: &'a V,
    pub age_ms: u64,
}

/// The right to fetch, to be handed back with the outcome: [`Slot::store`], [`Slot::forget`] or
/// [`Slot::fail`]. One that is lost on the way runs out with its lease.
#[must_use = "whoever holds this is expected to fetch"]
#[derive(Debug, PartialEq, Eq)]
pub struct Fetch {
    number: u64,
    started_ms: u64,
}

#[derive(Debug)]
pub struct Slot<V> {
    held: Option<Held<V>>,
    running: Option<Running>,
    /// When the last fetch failed, if none has succeeded since.
    failed_ms: Option<u64>,
    last_number: u64,
    /// Fetches up to this number started before the last write: what they bring may lack it.
    outdated_number: u64,
}

#[derive(Debug)]
struct Held<V> {
    value: V,
    fetched_by: u64,
    fetch_started_ms: u64,
}

#[derive(Debug)]
struct Running {
    number: u64,
    started_ms: u64,
    /// Started while the source was known to fail: nobody waits for it who has something to show.
    after_failure: bool,
}

impl<V> Default for Slot<V> {
    fn default() -> Self {
        Slot {
            held: None,
            running: None,
            failed_ms: None,
            last_number: 0,
            outdated_number: 0,
        }
    }
}

impl<V> Slot<V> {
    pub fn ask(&mut self, now_ms: u64, policy: &Policy) -> Answer<'_, V> {
        let age_ms = self
            .held
            .as_ref()
            .map(|held| elapsed_ms(held.fetch_started_ms, now_ms));

        if age_ms.is_some_and(|age_ms| age_ms < policy.ttl_ms) {
            return Answer::Fresh(self.aged(now_ms));
        }

        let since_failure_ms = self.failed_ms.map(|failed| elapsed_ms(failed, now_ms));
        let resting = since_failure_ms.is_some_and(|ms| ms < policy.retry_after_ms);
        let fetching = self
            .running
            .as_ref()
            .is_some_and(|running| elapsed_ms(running.started_ms, now_ms) < policy.lease_ms);
        // A failure is news for two rests: in the second one a reader who comes by starts the next
        // attempt. When nobody came, nothing is known any more.
        let failing = since_failure_ms.is_some_and(|ms| ms / 2 < policy.retry_after_ms)
            || (fetching && self.running.as_ref().is_some_and(|r| r.after_failure));

        let bound_ms = if failing {
            policy.max_age_on_error_ms()
        } else {
            policy.max_age_ms()
        };
        let may_serve = age_ms.is_some_and(|age_ms| age_ms < bound_ms);

        match (may_serve, fetching, resting) {
            (true, false, false) => {
                let fetch = self.start(now_ms, failing);
                Answer::Refresh(self.aged(now_ms), fetch)
            }
            (true, _, _) => Answer::Stale(self.aged(now_ms)),
            (false, true, _) => Answer::Wait,
            (false, false, true) => Answer::Fail,
            (false, false, false) => Answer::Fetch(self.start(now_ms, failing)),
        }
    }

    /// The fetch brought a value. It is kept unless a write came in between, or a later fetch has
    /// brought its own already; says whether it was kept.
    pub fn store(&mut self, fetch: Fetch, value: V) -> bool {
        self.finish(&fetch);
        if fetch.number <= self.outdated_number {
            return false;
        }
        if self
            .held
            .as_ref()
            .is_some_and(|held| held.fetched_by > fetch.number)
        {
            return false;
        }
        self.failed_ms = None;
        self.held = Some(Held {
            value,
            fetched_by: fetch.number,
            fetch_started_ms: fetch.started_ms,
        });
        true
    }

    /// The source answered, but with nothing to keep: what is held is no longer true either.
    pub fn forget(&mut self, fetch: Fetch) {
        self.finish(&fetch);
        if fetch.number <= self.outdated_number {
            return;
        }
        self.failed_ms = None;
        if self
            .held
            .as_ref()
            .is_some_and(|held| held.fetched_by < fetch.number)
        {
            self.held = None;
        }
    }

    /// The fetch failed. What may be served in its place is returned.
    pub fn fail(&mut self, fetch: Fetch, now_ms: u64, policy: &Policy) -> Option<Aged<'_, V>> {
        let was_current = self.finish(&fetch);
        if was_current && fetch.number > self.outdated_number {
            self.failed_ms = Some(now_ms);
        }
        self.after_failure(now_ms, policy)
    }

    /// What may be served by a request that waited for a fetch which then failed.
    pub fn after_failure(&self, now_ms: u64, policy: &Policy) -> Option<Aged<'_, V>> {
        let held = self.held.as_ref()?;
        let age_ms = elapsed_ms(held.fetch_started_ms, now_ms);
        (age_ms < policy.max_age_on_error_ms()).then_some(Aged {
            value: &held.value,
            age_ms,
        })
    }

    /// A write has changed what the value shows: drop it, and keep nothing that a fetch brings
    /// which has started before now.
    pub fn invalidate(&mut self) {
        self.held = None;
        self.running = None;
        self.outdated_number = self.last_number;
    }

    /// The fetch that others wait for has been lost on the way: the next request may start another
    /// without waiting for the lease to end. Should it come back all the same, it counts as usual.
    pub fn lost(&mut self) {
        self.running = None;
    }

    /// What is held, however old it is: to ask the source whether it has changed.
    pub fn held(&self) -> Option<&V> {
        self.held.as_ref().map(|held| &held.value)
    }

    fn start(&mut self, now_ms: u64, after_failure: bool) -> Fetch {
        self.last_number += 1;
        self.running = Some(Running {
            number: self.last_number,
            started_ms: now_ms,
            after_failure,
        });
        Fetch {
            number: self.last_number,
            started_ms: now_ms,
        }
    }

    /// Whether it was this fetch that others are waiting for; from now on they are not.
    fn finish(&mut self, fetch: &Fetch) -> bool {
        let was_current = self
            .running
            .as_ref()
            .is_some_and(|running| running.number == fetch.number);
        if was_current {
            self.running = None;
        }
        was_current
    }

    fn aged(&self, now_ms: u64) -> Aged<'_, V> {
        let held = self.held.as_ref().expect("asked only when a value is held");
        Aged {
            value: &held.value,
            age_ms: elapsed_ms(held.fetch_started_ms, now_ms),
        }
    }
}

/// A clock that jumped back far makes a value look old, not young: the distance counts.
fn elapsed_ms(since_ms: u64, now_ms: u64) -> u64 {
    now_ms.abs_diff(since_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const POLICY: Policy = Policy {
        ttl_ms: 1_000,
        stale_ms: 2_000,
        stale_if_error_ms: 60_000,
        lease_ms: 5_000,
        retry_after_ms: 500,
    };

    fn fetch_of<V: std::fmt::Debug>(answer: Answer<'_, V>) -> Fetch {
        match answer {
            Answer::Fetch(fetch) | Answer::Refresh(_, fetch) => fetch,
            other => panic!("no fetch: {other:?}"),
        }
    }

    fn slot_with(value: u64, fetch_started_ms: u64) -> Slot<u64> {
        let mut slot = Slot::default();
        let fetch = fetch_of(slot.ask(fetch_started_ms, &POLICY));
        assert!(slot.store(fetch, value));
        slot
    }

    fn fresh<'a>(value: &'a u64, age_ms: u64) -> Answer<'a, u64> {
        Answer::Fresh(Aged { value, age_ms })
    }

    fn stale<'a>(value: &'a u64, age_ms: u64) -> Answer<'a, u64> {
        Answer::Stale(Aged { value, age_ms })
    }

    #[test]
    fn cold_one_fetches_and_the_others_wait() {
        let mut slot = Slot::default();
        let fetch = fetch_of(slot.ask(0, &POLICY));
        assert_eq!(slot.ask(1, &POLICY), Answer::Wait);
        assert!(slot.store(fetch, 7));
        assert_eq!(slot.ask(300, &POLICY), fresh(&7, 300));
    }

    #[test]
    fn age_counts_from_the_start_of_the_fetch() {
        let mut slot = Slot::default();
        let fetch = fetch_of(slot.ask(0, &POLICY));
        // The answer takes 900 ms: 100 ms of freshness are left.
        assert!(slot.store(fetch, 7));
        assert_eq!(slot.ask(999, &POLICY), fresh(&7, 999));
        assert!(matches!(slot.ask(1_000, &POLICY), Answer::Refresh(..)));
    }

    #[test]
    fn expired_one_refreshes_and_nobody_waits() {
        let mut slot = slot_with(7, 0);
        let fetch = fetch_of(slot.ask(1_000, &POLICY));
        assert_eq!(slot.ask(1_001, &POLICY), stale(&7, 1_001));
        assert_eq!(slot.ask(2_999, &POLICY), stale(&7, 2_999));
        assert!(slot.store(fetch, 8));
        assert_eq!(slot.ask(1_500, &POLICY), fresh(&8, 500));
    }

    #[test]
    fn beyond_the_stale_bound_requests_wait_for_the_refresh() {
        let mut slot = slot_with(7, 0);
        let _slow = fetch_of(slot.ask(1_000, &POLICY));
        assert_eq!(slot.ask(3_000, &POLICY), Answer::Wait);
    }

    #[test]
    fn a_lost_fetch_is_replaced_and_cannot_undo_its_successor() {
        let mut slot = slot_with(7, 0);
        let lost = fetch_of(slot.ask(1_000, &POLICY));
        assert_eq!(slot.ask(5_999, &POLICY), Answer::Wait);
        let second = fetch_of(slot.ask(6_000, &POLICY));
        assert!(slot.store(second, 9));
        assert!(!slot.store(lost, 8));
        assert_eq!(slot.ask(6_500, &POLICY), fresh(&9, 500));
    }

    #[test]
    fn the_late_answer_of_a_replaced_fetch_leaves_its_successor_running() {
        let mut slot = slot_with(7, 0);
        let late = fetch_of(slot.ask(1_000, &POLICY));
        let _second = fetch_of(slot.ask(6_000, &POLICY));
        assert!(slot.store(late, 8));
        // Five seconds old by now, so it is nothing to serve, and nobody starts a third.
        assert_eq!(slot.ask(6_001, &POLICY), Answer::Wait);
    }

    #[test]
    fn a_fetch_known_to_be_lost_is_replaced_at_once() {
        let mut slot = Slot::<u64>::default();
        let _lost = fetch_of(slot.ask(0, &POLICY));
        slot.lost();
        let second = fetch_of(slot.ask(1, &POLICY));
        assert_eq!(slot.ask(2, &POLICY), Answer::Wait);
        assert!(slot.store(second, 9));
    }

    #[test]
    fn a_failure_is_covered_by_the_stale_value_until_its_bound() {
        let mut slot = slot_with(7, 0);
        let fetch = fetch_of(slot.ask(10_000, &POLICY));
        let served = slot.fail(fetch, 10_010, &POLICY).unwrap();
        assert_eq!((*served.value, served.age_ms), (7, 10_010));

        // At rest: stale at once. Then one attempt, and still nobody waits.
        assert_eq!(slot.ask(10_500, &POLICY), stale(&7, 10_500));
        let fetch = fetch_of(slot.ask(10_600, &POLICY));
        assert_eq!(slot.ask(13_000, &POLICY), stale(&7, 13_000));
        assert!(slot.fail(fetch, 13_000, &POLICY).is_some());

        let fetch = fetch_of(slot.ask(61_000, &POLICY));
        assert_eq!(slot.fail(fetch, 61_000, &POLICY), None);
        assert_eq!(slot.ask(61_100, &POLICY), Answer::Fail);
        // And it recovers by itself.
        let fetch = fetch_of(slot.ask(61_500, &POLICY));
        assert!(slot.store(fetch, 8));
        assert_eq!(slot.ask(61_600, &POLICY), fresh(&8, 100));
    }

    #[test]
    fn an_old_failure_is_no_news() {
        let mut slot = slot_with(7, 0);
        let fetch = fetch_of(slot.ask(10_000, &POLICY));
        slot.fail(fetch, 10_000, &POLICY);
        // Nobody came by for two rests: the source may be well again, so this one waits for it.
        assert!(matches!(slot.ask(11_000, &POLICY), Answer::Fetch(_)));
    }

    #[test]
    fn a_write_drops_the_value_and_what_was_fetched_before_it() {
        let mut slot = slot_with(7, 0);
        let before = fetch_of(slot.ask(1_000, &POLICY));
        slot.invalidate();
        let after = fetch_of(slot.ask(1_001, &POLICY));
        assert!(!slot.store(before, 8));
        assert_eq!(slot.ask(1_002, &POLICY), Answer::Wait);
        assert!(slot.store(after, 9));
        assert_eq!(slot.ask(1_003, &POLICY), fresh(&9, 2));
    }

    #[test]
    fn what_is_not_to_be_kept_takes_the_held_value_with_it() {
        let mut slot = slot_with(7, 0);
        let fetch = fetch_of(slot.ask(1_000, &POLICY));
        slot.forget(fetch);
        assert!(matches!(slot.ask(1_001, &POLICY), Answer::Fetch(_)));
    }

    #[test]
    fn a_clock_that_jumps_back_makes_nothing_young() {
        let mut slot = slot_with(7, 100_000_000);
        assert!(matches!(slot.ask(1_000, &POLICY), Answer::Fetch(_)));
    }

    #[test]
    fn a_ttl_of_zero_keeps_nothing_but_still_shares_a_fetch() {
        let policy = Policy {
            ttl_ms: 0,
            stale_ms: 0,
            ..POLICY
        };
        let mut slot = Slot::default();
        let fetch = fetch_of(slot.ask(0, &policy));
        assert_eq!(slot.ask(0, &policy), Answer::Wait);
        assert!(slot.store(fetch, 7));
        assert!(matches!(slot.ask(0, &policy), Answer::Fetch(_)));
    }

    // --- Properties: a source whose value is a version that every write raises ---------------

    #[derive(Debug, Clone, Copy)]
    enum Event {
        Pass {
            ms: u64,
        },
        Ask,
        /// The n-th fetch that is under way comes back: with a value, with nothing, failed, or never.
        Return {
            which: usize,
            outcome: Outcome,
        },
        Write,
    }

    #[derive(Debug, Clone, Copy)]
    enum Outcome {
        Value,
        Nothing,
        Failure,
        Lost,
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let outcome = prop_oneof![
            6 => Just(Outcome::Value),
            1 => Just(Outcome::Nothing),
            2 => Just(Outcome::Failure),
            1 => Just(Outcome::Lost),
        ];
        let event = prop_oneof![
            4 => prop_oneof![0..50_u64, 0..3_000_u64, 0..100_000_u64].prop_map(|ms| Event::Pass { ms }),
            6 => Just(Event::Ask),
            4 => (0..4_usize, outcome).prop_map(|(which, outcome)| Event::Return { which, outcome }),
            1 => Just(Event::Write),
        ];
        prop::collection::vec(event, 1..200)
    }

    fn policies() -> impl Strategy<Value = Policy> {
        (
            0..3_000_u64,
            0..5_000_u64,
            0..60_000_u64,
            1..8_000_u64,
            0..2_000_u64,
        )
            .prop_map(
                |(ttl_ms, stale_ms, stale_if_error_ms, lease_ms, retry_after_ms)| Policy {
                    ttl_ms,
                    stale_ms,
                    stale_if_error_ms,
                    lease_ms,
                    retry_after_ms,
                },
            )
    }

    /// What the source showed when the fetch began, and when that was.
    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Seen {
        version: u64,
        at_ms: u64,
    }

    proptest! {
        #[test]
        fn the_promises_hold_whatever_happens(events in events(), policy in policies()) {
            let mut slot: Slot<Seen> = Slot::default();
            let mut now_ms = 1_000_000;
            let mut version = 0;
            let mut under_way: Vec<(Fetch, Seen)> = Vec::new();
            // The fetch others rely on: gone once it returns, is outlived by a write, or its lease ends.
            let mut relied_on: Option<(u64, u64)> = None;
            let mut last_failure_ms: Option<u64> = None;

            for event in events {
                match event {
                    Event::Pass { ms } => now_ms += ms,
                    Event::Write => {
                        version += 1;
                        slot.invalidate();
                        relied_on = None;
                    }
                    Event::Ask => {
                        let answer = slot.ask(now_ms, &policy);
                        let leased = relied_on
                            .is_some_and(|(_, started_ms)| now_ms - started_ms < policy.lease_ms);
                        let served = match &answer {
                            Answer::Fresh(aged) | Answer::Stale(aged) | Answer::Refresh(aged, _) => {
                                Some((*aged.value, aged.age_ms))
                            }
                            _ => None,
                        };
                        if let Some((seen, age_ms)) = served {
                            prop_assert_eq!(seen.version, version, "a write was undone");
                            prop_assert_eq!(age_ms, now_ms - seen.at_ms);
                            let bound_ms = match last_failure_ms {
                                Some(_) => policy.max_age_on_error_ms(),
                                None => policy.max_age_ms(),
                            };
                            prop_assert!(age_ms < bound_ms, "{age_ms} is over the bound {bound_ms}");
                        }
                        match answer {
                            Answer::Fetch(fetch) | Answer::Refresh(_, fetch) => {
                                prop_assert!(!leased, "two fetches at once within a lease");
                                relied_on = Some((fetch.number, now_ms));
                                under_way.push((fetch, Seen { version, at_ms: now_ms }));
                            }
                            Answer::Wait => prop_assert!(leased, "waits for nobody"),
                            Answer::Fail => prop_assert!(
                                last_failure_ms.is_some_and(|at| now_ms - at < policy.retry_after_ms)
                            ),
                            Answer::Fresh(aged) => prop_assert!(aged.age_ms < policy.ttl_ms),
                            Answer::Stale(aged) => prop_assert!(
                                aged.age_ms >= policy.ttl_ms
                                    && (leased || last_failure_ms.is_some_and(|at| now_ms - at < policy.retry_after_ms)),
                                "stale, and nobody at work"
                            ),
                        }
                    }
                    Event::Return { which, outcome } => {
                        if under_way.is_empty() {
                            continue;
                        }
                        let (fetch, seen) = under_way.remove(which % under_way.len());
                        let number = fetch.number;
                        let current = relied_on.is_some_and(|(relied, _)| relied == number);
                        match outcome {
                            Outcome::Lost => continue,
                            Outcome::Value => {
                                let newest = slot.held().copied();
                                let kept = slot.store(fetch, seen);
                                prop_assert!(!kept || seen.version == version);
                                if let Some(newest) = newest.filter(|_| !kept) {
                                    prop_assert!(newest.at_ms >= seen.at_ms || seen.version < version);
                                }
                                if kept {
                                    last_failure_ms = None;
                                }
                            }
                            Outcome::Nothing => {
                                slot.forget(fetch);
                                if seen.version == version {
                                    last_failure_ms = None;
                                }
                            }
                            Outcome::Failure => {
                                if let Some(aged) = slot.fail(fetch, now_ms, &policy) {
                                    prop_assert_eq!(aged.value.version, version);
                                    prop_assert!(aged.age_ms < policy.max_age_on_error_ms());
                                }
                                if current {
                                    last_failure_ms = Some(now_ms);
                                }
                            }
                        }
                        if current {
                            relied_on = None;
                        }
                    }
                }
            }

            // Whatever was lost on the way, after a lease and a rest the next reader gets a fetch
            // or a value, and a fetch that returns is what the one after it is served.
            now_ms += policy.lease_ms.max(policy.retry_after_ms).max(policy.max_age_on_error_ms());
            let fetch = match slot.ask(now_ms, &policy) {
                Answer::Fetch(fetch) => fetch,
                other => return Err(TestCaseError::fail(format!("not replaced: {other:?}"))),
            };
            let seen = Seen { version, at_ms: now_ms };
            prop_assert!(slot.store(fetch, seen));
            if policy.ttl_ms > 0 {
                prop_assert_eq!(slot.ask(now_ms, &policy), Answer::Fresh(Aged { value: &seen, age_ms: 0 }));
            }
        }
    }
}
