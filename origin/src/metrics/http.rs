//! Requests: how many, with what outcome, and how long they took.

use std::time::Instant;

use ::http::{Method, StatusCode};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec};
use shared::route::{Route, route};

use super::{Metrics, Register};

/// From a tenth of a millisecond, as a read takes, to what nobody waits for.
const DURATIONS_S: [f64; 15] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
];

pub struct Requests {
    total: IntCounterVec,
    duration_s: HistogramVec,
}

impl Requests {
    pub fn new(register: &Register<'_>) -> prometheus::Result<Requests> {
        Ok(Requests {
            total: register.counters(
                "http_requests_total",
                "Requests answered.",
                &["route", "method", "status"],
            )?,
            duration_s: register.histograms(
                HistogramOpts::new(
                    "http_request_duration_seconds",
                    "From a request's last byte read to its response at hand.",
                )
                .buckets(DURATIONS_S.to_vec()),
                &["route"],
            )?,
        })
    }

    fn record(&self, labels: Labels, status: StatusCode, duration_s: f64) {
        let Labels { route, method } = labels;
        self.total
            .with_label_values(&[route, method, status.as_str()])
            .inc();
        self.duration_s
            .with_label_values(&[route])
            .observe(duration_s);
    }
}

/// The layer that measures; it belongs outside whatever can answer.
pub async fn measure(metrics: &'static Metrics, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let labels = Labels::of(request.method(), request.uri().path());
    let response = next.run(request).await;
    let duration_s = started.elapsed().as_secs_f64();
    metrics
        .requests
        .record(labels, response.status(), duration_s);
    response
}

/// From a few words of ours, whatever clients send: each combination is a series that stays.
#[derive(Debug, PartialEq, Eq)]
struct Labels {
    route: &'static str,
    method: &'static str,
}

impl Labels {
    fn of(method: &Method, path: &str) -> Labels {
        Labels {
            route: match route(method.as_str(), path) {
                Ok(Route::Health) => "/health",
                Ok(Route::Feed) => "/feed",
                Ok(Route::Post { .. }) => "/posts/{id}",
                Ok(Route::CreatePost) => "/posts",
                Ok(Route::Like { .. }) => "/posts/{id}/like",
                Err(_) => "none",
            },
            method: match *method {
                Method::GET => "GET",
                Method::HEAD => "HEAD",
                Method::POST => "POST",
                _ => "other",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_request_makes_up_a_label() {
        for (method, path, route, label) in [
            ("GET", "/posts/17", "/posts/{id}", "GET"),
            ("HEAD", "/posts/abc", "/posts/{id}", "HEAD"),
            ("POST", "/posts//like", "/posts/{id}/like", "POST"),
            ("GET", "/.env", "none", "GET"),
            ("BREW", "/feed", "none", "other"),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let expected = Labels {
                route,
                method: label,
            };
            assert_eq!(Labels::of(&method, path), expected, "{method} {path}");
        }
    }
}
