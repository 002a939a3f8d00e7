//! A minute of readers and writers of which one in ten leaves with a reset.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use testbed::http;
use testbed::scripted_origin::Mood;

use crate::stage::{RawClient, Stage, token};

const LENGTH: Duration = Duration::from_secs(60);
const CLIENTS: u64 = 20;

#[test]
fn a_minute_of_resets_costs_nobody_else_a_request() {
    let stage = Stage::with(|config| {
        config
            .var("FEED_TTL_MS", 200)
            .var("FEED_STALE_MS", 200)
            .var("POST_TTL_MS", 200)
    });
    // Slow enough that resets meet leaders, refreshers and followers.
    stage.origin.set(Mood::Slow(Duration::from_millis(30)));
    let bearer = format!("Bearer {}", token(1));
    let deadline = Instant::now() + LENGTH;
    let (served, resets) = (AtomicU64::new(0), AtomicU64::new(0));
    let slowest = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (stage, bearer, served, resets) = (&stage, &bearer, &served, &resets);
                scope.spawn(move || {
                    let mut slowest = Duration::ZERO;
                    for turn in client.. {
                        if Instant::now() > deadline {
                            break;
                        }
                        let post = format!("/posts/{}", 1 + turn % 5);
                        let like = format!("{post}/like");
                        let (method, path) = match turn % 8 {
                            0..=3 => ("GET", "/feed"),
                            4..=6 => ("GET", post.as_str()),
                            _ => ("POST", like.as_str()),
                        };
                        // Spread over the kinds of requests: 10 and 8 share a divisor, 13 does not.
                        if (turn / 13) % 10 == 0 {
                            let mut leaver = RawClient::connect(&stage.edge);
                            leaver.send(&format!(
                                "{method} {path} HTTP/1.1\r\nhost: edge\r\n\
                                 authorization: {bearer}\r\ncontent-length: 0\r\n\r\n"
                            ));
                            sleep(Duration::from_millis(turn % 40));
                            leaver.reset();
                            resets.fetch_add(1, Relaxed);
                            continue;
                        }
                        let start = Instant::now();
                        let headers = [("authorization", bearer.as_str())];
                        let answer =
                            http::request(method, &stage.edge.url(path), &headers, "").unwrap();
                        assert!(answer.status < 300, "{method} {path}: {answer:?}");
                        slowest = slowest.max(start.elapsed());
                        served.fetch_add(1, Relaxed);
                        sleep(Duration::from_millis(3));
                    }
                    slowest
                })
            })
            .collect();
        clients
            .into_iter()
            .map(|c| c.join().unwrap())
            .max()
            .unwrap()
    });
    let (served, resets) = (served.into_inner(), resets.into_inner());
    println!("{served} served, {resets} reset, slowest {slowest:?}");
    assert!(
        resets * 15 > served && served > 2_000,
        "{served} served, {resets} reset"
    );
    // The origin's limit is 2 s: what is slower than that hung.
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
}
