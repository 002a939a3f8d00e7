//! What is kept of the requests: counts and histograms, never the requests themselves.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Health,
    Feed,
    Post,
    Like,
    Create,
}

impl Kind {
    pub const ALL: [Kind; 5] = [
        Kind::Health,
        Kind::Feed,
        Kind::Post,
        Kind::Like,
        Kind::Create,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Health => "health",
            Kind::Feed => "feed",
            Kind::Post => "post",
            Kind::Like => "like",
            Kind::Create => "create",
        }
    }
}

/// Latencies as a reader wants them.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct Latency {
    pub count: u64,
    pub mean_us: f64,
    pub p50_us: u64,
    pub p95_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
    /// The whole distribution: shares and the latency that so many stayed under.
    pub quantiles: Vec<(f64, u64)>,
}

/// Requests that belong together: the whole run, or what was begun while it was held.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Window {
    pub requests: u64,
    pub failures: u64,
    /// Never sent, since every connection was busy; they are among the failures.
    pub dropped: u64,
    pub latency: Latency,
    pub by_request: BTreeMap<Kind, Requests>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Requests {
    pub requests: u64,
    pub failures: u64,
    pub latency: Latency,
}

impl Window {
    pub fn failure_share(&self) -> f64 {
        self.failures as f64 / (self.requests.max(1)) as f64
    }
}

/// One second of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Second {
    /// Its end, from the start of the run.
    pub second: u32,
    pub users: u32,
    pub in_flight: u32,
    /// Answered (or given up) within this second.
    pub requests: u64,
    pub failures: u64,
    pub dropped: u64,
    pub p50_us: u64,
    pub p95_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
    /// Over the whole run so far.
    pub p95_so_far_us: u64,
    pub requests_so_far: u64,
    pub failures_so_far: u64,
    /// How late the generator itself was: a busy one measures its own delays.
    pub generator_late_us: u64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Summary {
    pub whole: Window,
    /// What was due during the hold. k6 keeps no such part.
    pub hold: Option<Window>,
    pub failures_by_reason: BTreeMap<String, u64>,
    pub connect: Latency,
    pub interrupted: bool,
}

/// How one request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Ok,
    Status(u16),
    Failed(&'static str),
}

/// Three digits, from a microsecond to more than any request may take.
fn histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, 200_000_000, 3).expect("constant bounds")
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Latency {
    fn of(histogram: &Histogram<u32>) -> Latency {
        // Coarse where nothing happens, fine in the tail.
        let shares = (0..95)
            .step_by(5)
            .chain(95..100)
            .map(|percent| f64::from(percent) / 100.0)
            .chain([0.995, 0.999, 0.9995, 0.9999, 1.0]);
        Latency {
            count: histogram.len(),
            mean_us: histogram.mean(),
            p50_us: histogram.value_at_quantile(0.50),
            p95_us: histogram.value_at_quantile(0.95),
            p99_us: histogram.value_at_quantile(0.99),
            max_us: histogram.max(),
            quantiles: match histogram.is_empty() {
                true => Vec::new(),
                false => shares
                    .map(|share| (share, histogram.value_at_quantile(share)))
                    .collect(),
            },
        }
    }
}

struct Counted {
    requests: u64,
    failures: u64,
    latency: Histogram<u32>,
}

impl Counted {
    fn new() -> Self {
        Counted {
            requests: 0,
            failures: 0,
            latency: histogram(),
        }
    }

    fn add(&mut self, outcome: Outcome, latency_us: Option<u64>) {
        self.requests += 1;
        self.failures += u64::from(outcome != Outcome::Ok);
        if let Some(latency_us) = latency_us {
            self.latency.saturating_record(latency_us);
        }
    }
}

struct WindowRecorder {
    all: Counted,
    by_kind: BTreeMap<Kind, Counted>,
    dropped: u64,
}

impl WindowRecorder {
    fn new() -> Self {
        WindowRecorder {
            all: Counted::new(),
            by_kind: BTreeMap::new(),
            dropped: 0,
        }
    }

    fn add(&mut self, kind: Kind, outcome: Outcome, latency_us: Option<u64>) {
        self.all.add(outcome, latency_us);
        let counted = self.by_kind.entry(kind).or_insert_with(Counted::new);
        counted.add(outcome, latency_us);
    }

    fn window(&self) -> Window {
        Window {
            requests: self.all.requests,
            failures: self.all.failures,
            dropped: self.dropped,
            latency: Latency::of(&self.all.latency),
            by_request: (self.by_kind.iter())
                .map(|(kind, counted)| {
                    let requests = Requests {
                        requests: counted.requests,
                        failures: counted.failures,
                        latency: Latency::of(&counted.latency),
                    };
                    (*kind, requests)
                })
                .collect(),
        }
    }
}

pub struct Recorder {
    hold: std::ops::Range<Instant>,
    whole: WindowRecorder,
    held: WindowRecorder,
    second: Counted,
    second_dropped: u64,
    connect: Histogram<u32>,
    reasons: BTreeMap<String, u64>,
}

impl Recorder {
    pub fn new(hold: std::ops::Range<Instant>) -> Self {
        Recorder {
            hold,
            whole: WindowRecorder::new(),
            held: WindowRecorder::new(),
            second: Counted::new(),
            second_dropped: 0,
            connect: histogram(),
            reasons: BTreeMap::new(),
        }
    }

    pub fn connected(&mut self, took: Duration) {
        self.connect.saturating_record(us(took));
    }

    /// A request that was due at `since`. One that failed before it got an answer has no
    /// latency, unless it is the wait that failed it.
    pub fn record(
        &mut self,
        kind: Kind,
        since: Instant,
        latency: Option<Duration>,
        outcome: Outcome,
    ) {
        let latency_us = latency.map(us);
        self.whole.add(kind, outcome, latency_us);
        self.second.add(outcome, latency_us);
        if self.hold.contains(&since) {
            self.held.add(kind, outcome, latency_us);
        }
        match outcome {
            Outcome::Ok => {}
            Outcome::Status(status) => {
                *self.reasons.entry(format!("status {status}")).or_default() += 1
            }
            Outcome::Failed(reason) => *self.reasons.entry(reason.to_owned()).or_default() += 1,
        }
    }

    pub fn dropped(&mut self, kind: Kind, since: Instant) {
        self.record(
            kind,
            since,
            None,
            Outcome::Failed("dropped: every connection was busy"),
        );
        self.whole.dropped += 1;
        self.second_dropped += 1;
        self.held.dropped += u64::from(self.hold.contains(&since));
    }

    /// Ends a second.
    pub fn second(&mut self, second: u32) -> Second {
        let all = std::mem::replace(&mut self.second, Counted::new());
        let at = |quantile| all.latency.value_at_quantile(quantile);
        Second {
            second,
            requests: all.requests,
            failures: all.failures,
            dropped: std::mem::take(&mut self.second_dropped),
            p50_us: at(0.50),
            p95_us: at(0.95),
            p99_us: at(0.99),
            max_us: all.latency.max(),
            p95_so_far_us: self.whole.all.latency.value_at_quantile(0.95),
            requests_so_far: self.whole.all.requests,
            failures_so_far: self.whole.all.failures,
            ..Second::default()
        }
    }

    pub fn summary(&self, interrupted: bool) -> Summary {
        Summary {
            whole: self.whole.window(),
            hold: Some(self.held.window()),
            failures_by_reason: self.reasons.clone(),
            connect: Latency::of(&self.connect),
            interrupted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_count_where_they_were_due() {
        let start = Instant::now();
        let second = |n| start + Duration::from_secs(n);
        let mut recorder = Recorder::new(second(1)..second(2));
        let ms = |n| Some(Duration::from_millis(n));
        recorder.record(Kind::Feed, second(0), ms(1), Outcome::Ok);
        recorder.record(Kind::Feed, second(1), ms(100), Outcome::Ok);
        recorder.record(Kind::Like, second(1), ms(200), Outcome::Status(503));
        recorder.dropped(Kind::Post, second(2));

        let row = recorder.second(1);
        assert_eq!((row.requests, row.failures, row.dropped), (4, 2, 1));
        assert_eq!(recorder.second(2).requests, 0);

        let summary = recorder.summary(false);
        assert_eq!((summary.whole.requests, summary.whole.failures), (4, 2));
        let hold = summary.hold.unwrap();
        assert_eq!((hold.requests, hold.failures), (2, 1));
        assert_eq!(hold.by_request[&Kind::Like].failures, 1);
        assert_eq!(summary.failures_by_reason["status 503"], 1);
        let within = |found: u64, wanted: u64| found.abs_diff(wanted) * 500 <= wanted;
        assert!(within(hold.latency.p50_us, 100_000));
        assert!(within(hold.latency.max_us, 200_000));
    }
}
