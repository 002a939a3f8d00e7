//! What `METRICS_ADDR` shows, in Prometheus' text format.
//!
//! Metrics describe the process, so there is one set of them. Unless they were asked for there is
//! none: [`get`] finds nothing, and nothing is counted or timed.

mod http;
mod page;
mod process;

pub use http::measure;
pub use page::router;

use std::sync::{Mutex, MutexGuard, OnceLock};

use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};
use shared::ApiError;

use self::process::Process;

static METRICS: OnceLock<Metrics> = OnceLock::new();

/// Powers of two, up to the largest group of writes.
const BATCH_SIZES: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

pub struct Metrics {
    registry: Registry,
    process: Process,
    requests: http::Requests,
    requests_refused: IntCounterVec,
    connections_open: IntGaugeVec,
    connections_refused: IntCounter,
    batch_size: HistogramVec,
    queue_length: IntGaugeVec,
    feed_cache: IntCounterVec,
    watched: Mutex<Vec<Watched>>,
}

/// A number that stands somewhere already, looked up when somebody wants to see it.
struct Watched {
    gauge: IntGauge,
    read: Box<dyn Fn() -> usize + Send>,
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
            batch_size: register.histograms(
                HistogramOpts::new(
                    "store_batch_size",
                    "Calls that shared one transaction or one query.",
                )
                .buckets(BATCH_SIZES.to_vec()),
                &["call"],
            )?,
            queue_length: register.gauges(
                "store_queue_length",
                "Calls that wait for the database.",
                &["call"],
            )?,
            feed_cache: register.counters(
                "feed_cache_requests_total",
                "Feed requests by whether the feed was at hand, rendered, or shared with a render under way.",
                &["result"],
            )?,
            watched: Mutex::default(),
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

    /// `open` says how many connections a worker has.
    pub fn watch_connections(&self, worker: &str, open: impl Fn() -> usize + Send + 'static) {
        self.watch(self.connections_open.with_label_values(&[worker]), open);
    }

    /// `size` calls of one kind went to the database together.
    pub fn batch(&self, call: &'static str, size: usize) {
        self.batch_size
            .with_label_values(&[call])
            .observe(size as f64);
    }

    /// `length` says how many calls of a kind are waiting.
    pub fn watch_queue(&self, call: &'static str, length: impl Fn() -> usize + Send + 'static) {
        self.watch(self.queue_length.with_label_values(&[call]), length);
    }

    pub fn feed_cache(&self, result: FeedCacheResult) {
        let result = match result {
            FeedCacheResult::Hit => "hit",
            FeedCacheResult::Miss => "miss",
            FeedCacheResult::Shared => "shared",
        };
        self.feed_cache.with_label_values(&[result]).inc();
    }

    fn watch(&self, gauge: IntGauge, read: impl Fn() -> usize + Send + 'static) {
        let read = Box::new(read);
        self.watched().push(Watched { gauge, read });
    }

    /// Everything, as it is now.
    fn text(&self) -> prometheus::Result<String> {
        for watched in self.watched().iter() {
            watched.gauge.set((watched.read)() as i64);
        }
        self.process.update();
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    fn watched(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.watched
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
