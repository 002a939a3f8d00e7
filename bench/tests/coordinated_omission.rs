//! A server that stands still for two seconds: those who wait for it before they ask again
//! hardly notice, those who would have come meanwhile do.

mod common;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Bench, Delay, serve};

const STALL: Duration = Duration::from_secs(2);

/// Stands still once, three seconds after the first request: whoever asks then is answered
/// when it goes on.
fn stalls_once() -> Delay {
    let first = Mutex::new(None);
    Arc::new(move || {
        let mut first = first.lock().unwrap();
        let elapsed = first.get_or_insert_with(Instant::now).elapsed();
        let begins = Duration::from_secs(3);
        match elapsed >= begins && elapsed < begins + STALL {
            true => begins + STALL - elapsed,
            // A server has its own pace: the loop must not spin.
            false => Duration::from_millis(2),
        }
    })
}

#[test]
fn a_stall_shows_in_the_open_loop_and_hides_in_the_closed_one() {
    let bench = Bench::new();
    let closed = bench.level(serve(stalls_once()), &["--hammer", "feed", "--hold", "10s"]);
    let open = bench.level(
        serve(stalls_once()),
        &[
            "--rate", "200", "--ramp", "0s", "--hold", "10s", "--grace", "5s",
        ],
    );

    // Both saw it …
    assert!(closed.summary.whole.latency.max_us > 1_800_000);
    assert!(open.summary.whole.latency.max_us > 1_800_000);
    // … but only one says what it meant: a fifth of the arrivals fell into it.
    let closed = closed.summary.whole.latency;
    let open = open.summary.whole.latency;
    assert!(closed.p99_us < 200_000, "closed p99 {} µs", closed.p99_us);
    assert!(open.p99_us > 1_500_000, "open p99 {} µs", open.p99_us);
    assert!(open.p95_us > 1_000_000, "open p95 {} µs", open.p95_us);
}
