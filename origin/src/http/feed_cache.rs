//! `FEED_CACHE_MS`: a worker keeps the feed for a moment. What is kept when is decided by
//! `shared::microcache`; here requests wait for each other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use shared::ApiError;
use shared::microcache::{Answer, Fetch, Policy, Slot};
use tokio::sync::watch;

use crate::metrics::{self, FeedCacheResult};

type Outcome = Result<Bytes, ApiError>;

/// How many posts this process has created: what all its workers look at to know that a feed of
/// theirs has become old.
pub type Creates = Arc<AtomicU64>;

/// A render that has not come to an end for this long is not waited for any longer.
const LEASE_MS: u64 = 5_000;

pub struct FeedCache {
    policy: Policy,
    clock: Instant,
    creates: Creates,
    /// Only this worker locks it, and never across an await: it is never contended.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    slot: Slot<Bytes>,
    /// What `creates` was when it was last looked at.
    creates: u64,
    /// Where the outcome of the latest render arrives.
    rendering: Option<watch::Receiver<Option<Outcome>>>,
}

enum Turn<'a> {
    Serve(Bytes),
    Render(Render<'a>),
    Wait(watch::Receiver<Option<Outcome>>),
}

impl Turn<'_> {
    fn result(&self) -> FeedCacheResult {
        match self {
            Turn::Serve(_) => FeedCacheResult::Hit,
            Turn::Render(_) => FeedCacheResult::Miss,
            Turn::Wait(_) => FeedCacheResult::Shared,
        }
    }
}

impl FeedCache {
    pub fn new(ttl: Duration, creates: Creates) -> FeedCache {
        FeedCache {
            policy: Policy {
                ttl_ms: ttl.as_millis() as u64,
                // Rendering is quick: waiting for it beats serving what is older than asked for.
                stale_ms: 0,
                stale_if_error_ms: 0,
                lease_ms: LEASE_MS,
                retry_after_ms: 0,
            },
            clock: Instant::now(),
            creates,
            state: Mutex::default(),
        }
    }

    /// The feed that is kept, or else the outcome of `render`: of one for all who miss together.
    pub async fn get(&self, render: impl Future<Output = Outcome>) -> Outcome {
        loop {
            let turn = self.turn();
            if let Some(metrics) = metrics::get() {
                metrics.feed_cache(turn.result());
            }
            match turn {
                Turn::Serve(body) => return Ok(body),
                Turn::Render(turn) => {
                    let outcome = render.await;
                    turn.end(outcome.clone());
                    return outcome;
                }
                Turn::Wait(mut rendering) => {
                    // An error: whoever rendered went away before the end. Then it starts anew.
                    if let Ok(outcome) = rendering.wait_for(Option::is_some).await {
                        return outcome.clone().expect("waited for");
                    }
                }
            }
        }
    }

    /// A post was created: called before its author is told, so whoever knows of it sees it.
    pub fn post_created(&self) {
        self.creates.fetch_add(1, Ordering::Release);
    }

    fn turn(&self) -> Turn<'_> {
        let creates = self.creates.load(Ordering::Acquire);
        let mut state = self.lock();
        if state.creates != creates {
            state.creates = creates;
            state.slot.invalidate();
        }
        match state.slot.ask(self.now_ms(), &self.policy) {
            Answer::Fresh(kept) | Answer::Stale(kept) | Answer::Refresh(kept, _) => {
                Turn::Serve(kept.value.clone())
            }
            Answer::Fetch(fetch) => {
                let (outcome, rendering) = watch::channel(None);
                state.rendering = Some(rendering);
                Turn::Render(Render {
                    cache: self,
                    fetch: Some(fetch),
                    outcome,
                })
            }
            Answer::Wait | Answer::Fail => {
                let rendering = state.rendering.clone();
                Turn::Wait(rendering.expect("a wait is for a render that was started"))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn now_ms(&self) -> u64 {
        self.clock.elapsed().as_millis() as u64
    }
}

/// A request's turn to render for all who wait.
struct Render<'a> {
    cache: &'a FeedCache,
    fetch: Option<Fetch>,
    outcome: watch::Sender<Option<Outcome>>,
}

impl Render<'_> {
    fn end(mut self, outcome: Outcome) {
        if let Ok(body) = &outcome
            && let Some(fetch) = self.fetch.take()
        {
            self.cache.lock().slot.store(fetch, body.clone());
        }
        self.outcome.send_replace(Some(outcome));
    }
}

impl Drop for Render<'_> {
    /// It failed, or the request was given up: the next one may try at once.
    fn drop(&mut self) {
        if let Some(fetch) = self.fetch.take() {
            let now_ms = self.cache.now_ms();
            let mut state = self.cache.lock();
            state.slot.fail(fetch, now_ms, &self.cache.policy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::oneshot;

    fn cache(ttl_ms: u64) -> FeedCache {
        FeedCache::new(Duration::from_millis(ttl_ms), Creates::default())
    }

    fn feed(text: &'static str) -> Outcome {
        Ok(Bytes::from_static(text.as_bytes()))
    }

    #[tokio::test]
    async fn what_was_rendered_is_served_until_it_is_too_old() {
        let cache = cache(300);
        assert_eq!(cache.get(ready(feed("a"))).await, feed("a"));
        assert_eq!(cache.get(ready(feed("b"))).await, feed("a"));
        tokio::time::sleep(Duration::from_millis(310)).await;
        assert_eq!(cache.get(ready(feed("c"))).await, feed("c"));
    }

    #[tokio::test]
    async fn who_misses_together_shares_one_render() {
        let (cache, renders) = (cache(60_000), AtomicUsize::new(0));
        let (begin, begun) = oneshot::channel::<()>();
        let first = cache.get(async {
            renders.fetch_add(1, Ordering::Relaxed);
            begun.await.unwrap();
            feed("a")
        });
        let other = || {
            cache.get(async {
                renders.fetch_add(1, Ordering::Relaxed);
                feed("b")
            })
        };
        let release = async {
            begin.send(()).unwrap();
            feed("released")
        };
        let outcomes = tokio::join!(first, other(), other(), release);
        assert_eq!(
            outcomes,
            (feed("a"), feed("a"), feed("a"), feed("released"))
        );
        assert_eq!(renders.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_failure_is_shared_and_not_kept() {
        let cache = cache(60_000);
        let fails = async {
            tokio::task::yield_now().await;
            Err(ApiError::DatabaseUnavailable)
        };
        let outcomes = tokio::join!(cache.get(fails), cache.get(ready(feed("unused"))));
        let failed = Err(ApiError::DatabaseUnavailable);
        assert_eq!(outcomes, (failed.clone(), failed));
        assert_eq!(cache.get(ready(feed("a"))).await, feed("a"));
    }

    #[tokio::test]
    async fn who_waits_takes_over_when_the_renderer_goes_away() {
        let cache = cache(60_000);
        let waits = {
            let mut leaves = pin!(cache.get(pending()));
            assert!(poll_once(leaves.as_mut()).await.is_none());
            let mut waits = Box::pin(cache.get(ready(feed("b"))));
            assert!(poll_once(waits.as_mut()).await.is_none());
            waits
        };
        assert_eq!(waits.await, feed("b"));
    }

    #[tokio::test]
    async fn a_create_drops_what_is_kept_and_what_is_under_way() {
        let cache = cache(60_000);
        assert_eq!(cache.get(ready(feed("a"))).await, feed("a"));
        cache.post_created();
        let (begin, begun) = oneshot::channel::<()>();
        let before = cache.get(async {
            begun.await.unwrap();
            feed("b")
        });
        let create = async {
            cache.post_created();
            let after = cache.get(ready(feed("c"))).await;
            begin.send(()).unwrap();
            after
        };
        assert_eq!(tokio::join!(before, create), (feed("b"), feed("c")));
        assert_eq!(cache.get(ready(feed("d"))).await, feed("c"));
    }

    /// Polls once: the outcome if there is one already.
    async fn poll_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            outcome = &mut future => Some(outcome),
            () = ready(()) => None,
        }
    }
}
