//! One cached resource of this isolate: the rules are `shared::microcache`, this is the plumbing.
//!
//! A fetch that several requests wait for is a JavaScript promise, kept here and handed to
//! `waitUntil`. Nothing else works: the runtime ties a Rust future or channel to the request that
//! made it, and without `waitUntil` the fetch ends when the leader's client leaves.
//!
//! The promise is the signal, not the truth. Under load the runtime takes a request that waits for
//! another's promise for hung now and then, since it does no I/O of its own, and cancels it. So
//! each waiter also has a timer, and looks for the outcome itself.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use js_sys::futures::JsFuture;
use js_sys::{Array, ArrayBuffer, Promise};
use shared::ApiError;
use shared::microcache::{Aged, Fetch, Policy, Slot};
use wasm_bindgen::JsValue;
use web_sys::{Response, ResponseInit};

use crate::origin::{Answer, Origins, Reader, now_ms};
use crate::{reply, task};

pub use shared::microcache::Answer as Verdict;

/// How often a waiter looks for the outcome should the signal not reach it.
const TICK_MS: i32 = 50;

/// Where a resource comes from, how long it keeps, and what is said of it downstream.
pub struct Source {
    pub path: String,
    pub policy: Policy,
    pub cache_control: &'static str,
}

#[derive(Default)]
pub struct Cached {
    slot: RefCell<Slot<Rc<Kept>>>,
    flight: RefCell<Option<Flight>>,
}

/// A body that is kept, as the JavaScript object that responses are made of: it is never copied
/// into wasm.
pub struct Kept {
    body: ArrayBuffer,
    etag: Option<String>,
    /// The headers of the last hit. They change once a second, and building them is most of what a
    /// hit costs.
    hit: RefCell<Option<(HitKey, ResponseInit)>>,
}

#[derive(PartialEq, Eq, Clone, Copy)]
struct HitKey {
    age_s: u64,
    ttl_s: i64,
    cache_control: &'static str,
}

#[derive(Clone)]
struct Flight {
    /// By then it has landed or is lost.
    deadline_ms: u64,
    landed: Promise,
    outcome: Rc<OnceCell<Outcome>>,
}

#[derive(Clone)]
enum Outcome {
    /// Fetched now, or found unchanged now.
    Got(Rc<Kept>, FetchedAs),
    /// The origin failed; this is what may be served in its place.
    Stale(Rc<Kept>, u64),
    /// The origin's own refusal, for those who waited for it.
    Refused(Rc<Answer>),
    Failed(ApiError),
}

#[derive(Clone, Copy)]
struct FetchedAs {
    started_ms: u64,
    unchanged: bool,
    stored: bool,
}

/// What a request is to do, told apart before anything waits: a hit is answered on the spot.
pub enum Next {
    Respond(reply::Result),
    Await(Waiting),
}

pub struct Waiting {
    flight: Flight,
    leads: bool,
}

impl Cached {
    pub fn ask(
        self: &Rc<Self>,
        origins: &Rc<Origins>,
        source: &Rc<Source>,
        if_none_match: Option<&str>,
        wait_until: impl FnOnce(&Promise),
    ) -> Next {
        let now_ms = now_ms();
        let mut slot = self.slot.borrow_mut();
        let respond = |aged: &Aged<'_, Rc<Kept>>, failing: bool| {
            aged.value
                .respond(aged.age_ms, source, if_none_match, failing)
        };
        match slot.ask(now_ms, &source.policy) {
            Verdict::Fresh(aged) => Next::Respond(respond(&aged, false)),
            Verdict::Stale(aged) => Next::Respond(respond(&aged, false)),
            Verdict::Refresh(aged, fetch) => {
                let response = respond(&aged, false);
                drop(slot);
                wait_until(&self.take_off(origins, source, fetch, now_ms).landed);
                Next::Respond(response)
            }
            Verdict::Fetch(fetch) => {
                drop(slot);
                let flight = self.take_off(origins, source, fetch, now_ms);
                wait_until(&flight.landed);
                Next::Await(Waiting {
                    flight,
                    leads: true,
                })
            }
            Verdict::Wait => match self.flight.borrow().clone() {
                Some(flight) => Next::Await(Waiting {
                    flight,
                    leads: false,
                }),
                None => Next::Respond(reply::error(ApiError::OriginUnreachable)),
            },
            Verdict::Fail => Next::Respond(reply::error_with(
                ApiError::OriginUnreachable,
                &[("cache-status", "onebox; fwd=miss; detail=origin-resting")],
            )),
        }
    }

    /// A write has succeeded that changes this resource.
    pub fn invalidate(&self) {
        self.slot.borrow_mut().invalidate();
        self.flight.borrow_mut().take();
    }

    fn take_off(
        self: &Rc<Self>,
        origins: &Rc<Origins>,
        source: &Rc<Source>,
        fetch: Fetch,
        started_ms: u64,
    ) -> Flight {
        let outcome = Rc::new(OnceCell::new());
        let fly = {
            let (cached, origins, source) = (self.clone(), origins.clone(), source.clone());
            let outcome = outcome.clone();
            async move {
                let came = cached.fetch(&origins, &source, fetch, started_ms).await;
                let _ = outcome.set(came);
                let mut current = cached.flight.borrow_mut();
                if current
                    .as_ref()
                    .is_some_and(|f| Rc::ptr_eq(&f.outcome, &outcome))
                {
                    current.take();
                }
            }
        };
        let flight = Flight {
            deadline_ms: started_ms + source.policy.lease_ms,
            landed: task::signal(fly),
            outcome,
        };
        *self.flight.borrow_mut() = Some(flight.clone());
        flight
    }

    async fn fetch(
        &self,
        origins: &Origins,
        source: &Source,
        fetch: Fetch,
        started_ms: u64,
    ) -> Outcome {
        let held = self.slot.borrow().held().cloned();
        let etag = held.as_ref().and_then(|held| held.etag.as_deref());
        let answer = origins.get(&source.path, &Reader::nobody(etag)).await;
        let mut slot = self.slot.borrow_mut();

        let failure = match answer {
            Ok(answer) => match (answer.status, held) {
                (304, Some(held)) => {
                    let stored = slot.store(fetch, held.clone());
                    let unchanged = true;
                    return Outcome::Got(
                        held,
                        FetchedAs {
                            started_ms,
                            unchanged,
                            stored,
                        },
                    );
                }
                (200, _) => {
                    let kept = Rc::new(Kept::new(answer));
                    let stored = slot.store(fetch, kept.clone());
                    let unchanged = false;
                    return Outcome::Got(
                        kept,
                        FetchedAs {
                            started_ms,
                            unchanged,
                            stored,
                        },
                    );
                }
                // There is no such thing (any more): nothing to keep, and nothing wrong.
                (404, _) => {
                    slot.forget(fetch);
                    return Outcome::Refused(Rc::new(answer));
                }
                _ => Outcome::Refused(Rc::new(answer)),
            },
            Err(error) => Outcome::Failed(error),
        };
        match slot.fail(fetch, now_ms(), &source.policy) {
            Some(aged) => Outcome::Stale(aged.value.clone(), aged.age_ms),
            None => failure,
        }
    }
}

impl Flight {
    async fn outcome(&self) -> Option<&Outcome> {
        loop {
            if let Some(outcome) = self.outcome.get() {
                return Some(outcome);
            }
            if now_ms() >= self.deadline_ms {
                return None;
            }
            let tick = task::sleep(TICK_MS);
            let first = Promise::race(&Array::of2(&self.landed, &tick));
            if JsFuture::from(first).await.is_err() {
                let _ = JsFuture::from(tick).await;
            }
        }
    }
}

impl Waiting {
    /// `None`: the fetch was lost together with the request that led it.
    pub async fn respond(
        self,
        cached: &Cached,
        source: &Source,
        if_none_match: Option<&str>,
    ) -> Option<reply::Result> {
        let Some(outcome) = self.flight.outcome().await else {
            cached.lost(&self.flight);
            return None;
        };
        Some(match outcome {
            Outcome::Got(kept, how) => {
                let how_it_came = match (self.leads, how.unchanged) {
                    (false, _) => "onebox; fwd=miss; collapsed",
                    (true, true) => "onebox; fwd=stale; fwd-status=304",
                    (true, false) if how.stored => "onebox; fwd=miss; fwd-status=200; stored",
                    (true, false) => "onebox; fwd=miss; fwd-status=200",
                };
                let age_ms = now_ms().abs_diff(how.started_ms);
                kept.respond_as(how_it_came, age_ms, source, if_none_match)
            }
            Outcome::Stale(kept, age_ms) => kept.respond(*age_ms, source, if_none_match, true),
            Outcome::Refused(answer) => reply::passed(answer, "onebox; fwd=miss"),
            Outcome::Failed(error) => {
                reply::error_with(*error, &[("cache-status", "onebox; fwd=miss")])
            }
        })
    }
}

impl Cached {
    fn lost(&self, flight: &Flight) {
        let mut current = self.flight.borrow_mut();
        if current
            .as_ref()
            .is_some_and(|f| Rc::ptr_eq(&f.outcome, &flight.outcome))
        {
            current.take();
            self.slot.borrow_mut().lost();
        }
    }
}

impl Kept {
    fn new(answer: Answer) -> Kept {
        Kept {
            body: answer.body,
            etag: answer.etag,
            hit: RefCell::new(None),
        }
    }

    /// Out of the cache.
    fn respond(
        &self,
        age_ms: u64,
        source: &Source,
        if_none_match: Option<&str>,
        failing: bool,
    ) -> reply::Result {
        // Rounded down, so that one which is stale by a millisecond is already at -1.
        let ttl_s = (source.policy.ttl_ms as i64 - age_ms as i64).div_euclid(1_000);
        if failing || self.matches(if_none_match) {
            let detail = if failing {
                "; detail=origin-failed"
            } else {
                ""
            };
            let cache_status = format!("onebox; hit; ttl={ttl_s}{detail}");
            return self.respond_as(&cache_status, age_ms, source, if_none_match);
        }

        let key = HitKey {
            age_s: age_ms / 1_000,
            ttl_s,
            cache_control: source.cache_control,
        };
        let mut hit = self.hit.borrow_mut();
        if let Some((_, init)) = hit.as_ref().filter(|(made_for, _)| *made_for == key) {
            return reply::bytes(&self.body, init);
        }
        let init = self.init(200, &format!("onebox; hit; ttl={ttl_s}"), age_ms, source)?;
        let response = reply::bytes(&self.body, &init);
        *hit = Some((key, init));
        response
    }

    fn respond_as(
        &self,
        cache_status: &str,
        age_ms: u64,
        source: &Source,
        if_none_match: Option<&str>,
    ) -> reply::Result {
        if self.matches(if_none_match) {
            let init = self.init(304, cache_status, age_ms, source)?;
            return Response::new_with_opt_str_and_init(None, &init);
        }
        reply::bytes(&self.body, &self.init(200, cache_status, age_ms, source)?)
    }

    fn init(
        &self,
        status: u16,
        cache_status: &str,
        age_ms: u64,
        source: &Source,
    ) -> Result<ResponseInit, JsValue> {
        let age_s = (age_ms / 1_000).to_string();
        let mut headers = vec![
            ("cache-control", source.cache_control),
            ("cache-status", cache_status),
            ("age", &age_s),
        ];
        headers.extend(self.etag.as_deref().map(|etag| ("etag", etag)));
        reply::init(status, &headers)
    }

    fn matches(&self, if_none_match: Option<&str>) -> bool {
        match (if_none_match, &self.etag) {
            (Some(wanted), Some(etag)) => shared::etag::matches(wanted, etag),
            _ => false,
        }
    }
}
