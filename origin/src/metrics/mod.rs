//! What `METRICS_ADDR` shows, in Prometheus' text format.
//!
//! Metrics describe the process, so there is one set of them. Unless they were asked for there is
//! none: [`get`] finds nothing, and nothing is counted or timed.

mod http;
mod page;
mod process;

pub use http::measure;
pub use page::router;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use prometheus::core::Collector;
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};
use shared::ApiError;
use tracing::warn;

use self::process::Process;

static METRICS: OnceLock<Metrics> = OnceLock::new();

pub struct Metrics {
    registry: Registry,
    process: Process,
    requests: http::Requests,
    requests_refused: IntCounterVec,
    connections_open: IntGaugeVec,
    connections_refused: IntCounter,
    feed_cache: IntCounterVec,
    /// Each worker's count, looked up when somebody wants to see it.
    workers: Mutex<Vec<(IntGauge, Arc<AtomicUsize>)>>,
}

/// How the feed cache answered.
#[derive(Clone, Copy)]
pub enum FeedCacheResult {
    Hit,
    Miss,
    /// Waited for another request's render.
    Shared,
}

/// The metrics, if they were asked for.
pub fn get() -> Option<&'static Metrics> {
    METRICS.get()
}

/// From now on the process has metrics.
pub fn enable() -> &'static Metrics {
    METRICS.get_or_init(|| Metrics::new().expect("the names of the metrics are valid and differ"))
}

impl Metrics {
    fn new() -> prometheus::Result<Metrics> {
        let registry = Registry::new();
        let register = Register(&registry);
        Ok(Metrics {
            process: Process::new(&register)?,
            requests: http::Requests::new(&register)?,
            requests_refused: register.counters(
                "http_requests_refused_total",
                "Requests refused before they reached a route: no HTTP, too large or too slow.",
                &["status"],
            )?,
            connections_open: register.gauges(
                "http_connections_open",
                "Open connections.",
                &["worker"],
            )?,
            connections_refused: register.counter(
                "http_connections_refused_total",
                "Connections refused because MAX_CONNECTIONS were open.",
            )?,
            feed_cache: register.counters(
                "feed_cache_requests_total",
                "Feed requests by whether the feed was at hand, rendered, or shared with a render under way.",
                &["result"],
            )?,
            workers: Mutex::default(),
            registry,
        })
    }

    pub fn request_refused(&self, error: ApiError) {
        let status = error.status().to_string();
        self.requests_refused.with_label_values(&[&status]).inc();
    }

    pub fn connection_refused(&self) {
        self.connections_refused.inc();
    }

    /// `open` is where a worker counts its connections.
    pub fn watch_connections(&self, worker: usize, open: Arc<AtomicUsize>) {
        let worker = worker.to_string();
        let gauge = self.connections_open.with_label_values(&[&worker]);
        self.workers().push((gauge, open));
    }

    /// Shows what is counted at the database.
    pub fn show(&self, counters: Box<dyn Collector>) {
        if let Err(fault) = self.registry.register(counters) {
            // Two databases in one process: a test may do that.
            warn!(%fault, "these metrics are shown for another database already");
        }
    }

    pub fn feed_cache(&self, result: FeedCacheResult) {
        let result = match result {
            FeedCacheResult::Hit => "hit",
            FeedCacheResult::Miss => "miss",
            FeedCacheResult::Shared => "shared",
        };
        self.feed_cache.with_label_values(&[result]).inc();
    }

    /// Everything, as it is now.
    fn text(&self) -> prometheus::Result<String> {
        for (gauge, open) in self.workers().iter() {
            gauge.set(open.load(Ordering::Relaxed) as i64);
        }
        self.process.update();
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    fn workers(&self) -> MutexGuard<'_, Vec<(IntGauge, Arc<AtomicUsize>)>> {
        self.workers
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Makes metrics that are on the page from the start.
struct Register<'a>(&'a Registry);

impl Register<'_> {
    fn add<M: Clone + prometheus::core::Collector + 'static>(
        &self,
        metric: M,
    ) -> prometheus::Result<M> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    fn counter(&self, name: &str, help: &str) -> prometheus::Result<IntCounter> {
        self.add(IntCounter::new(name, help)?)
    }

    fn counters(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
    ) -> prometheus::Result<IntCounterVec> {
        self.add(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    fn gauge(&self, name: &str, help: &str) -> prometheus::Result<IntGauge> {
        self.add(IntGauge::new(name, help)?)
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntGaugeVec> {
        self.add(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    fn histograms(
        &self,
        options: HistogramOpts,
        labels: &[&str],
    ) -> prometheus::Result<HistogramVec> {
        self.add(HistogramVec::new(options, labels)?)
    }
}
