use std::thread::sleep;
use std::time::{Duration, Instant};

use testbed::scripted_origin::Mood;
use testbed::{ScriptedOrigin, http};

use crate::stage::{Stage, TTL, crowd, edge_config, number, token};

const STALE_IF_ERROR: Duration = Duration::from_millis(2_500);

fn stage() -> Stage {
    Stage::with(|config| {
        config
            .var("FEED_STALE_MS", 500)
            .var("STALE_IF_ERROR_MS", STALE_IF_ERROR.as_millis())
    })
}

/// Stops, breaks or silences the origin and follows the feed through it to the recovery.
fn the_feed_outlives(
    fail: impl Fn(&ScriptedOrigin),
    heal: impl Fn(&ScriptedOrigin),
    refusal: (u16, &str),
) {
    let stage = stage();
    stage.warm();
    let warm = Instant::now();
    fail(&stage.origin);

    sleep(TTL + Duration::from_millis(600));
    let stale = stage.feed();
    assert_eq!(stale.status, 200, "{stale:?}");
    assert_eq!(number(&stale, "version"), 1);
    assert!(stale.header("age").is_some_and(|age| age != "0"));

    // To the bound it is served, and at once as long as somebody keeps asking.
    let bound = TTL + STALE_IF_ERROR;
    while warm.elapsed() < bound - Duration::from_millis(300) {
        let start = Instant::now();
        let answer = stage.feed();
        assert_eq!(answer.status, 200, "after {:?}: {answer:?}", warm.elapsed());
        assert!(
            start.elapsed() < Duration::from_millis(500),
            "{:?}",
            start.elapsed()
        );
        sleep(Duration::from_millis(50));
    }
    sleep((bound - warm.elapsed()) + Duration::from_millis(20));
    let refused = stage.feed();
    assert_eq!((refused.status, refused.body.as_str()), refusal);
    assert_eq!(refused.header("cache-control"), Some("no-store"));

    heal(&stage.origin);
    let start = Instant::now();
    while stage.feed().status != 200 {
        assert!(start.elapsed() < Duration::from_secs(5), "no recovery");
        sleep(Duration::from_millis(20));
    }
    assert!(number(&stage.feed(), "version") > 1);
}

#[test]
fn an_origin_that_is_down_is_covered_for_a_while_then_502_then_recovery() {
    the_feed_outlives(
        |origin| origin.stop(),
        |origin| origin.resume().unwrap(),
        (502, r#"{"error":"origin unreachable"}"#),
    );
}

#[test]
fn an_origin_that_drops_connections_is_covered_the_same_way() {
    the_feed_outlives(
        |origin| origin.set(Mood::Rude),
        |origin| origin.set(Mood::Well),
        (502, r#"{"error":"origin unreachable"}"#),
    );
}

#[test]
fn an_origin_that_answers_500_is_covered_and_then_heard() {
    let stage = stage();
    stage.warm();
    stage.origin.set(Mood::Broken);
    sleep(TTL + Duration::from_millis(600));
    assert_eq!(number(&stage.feed(), "version"), 1);
    sleep(STALE_IF_ERROR);
    let broken = stage.feed();
    assert_eq!(
        (broken.status, broken.body.as_str()),
        (500, r#"{"error":"internal server error"}"#)
    );
    assert_eq!(broken.header("cache-control"), Some("no-store"));
}

#[test]
fn an_origin_that_never_answers_is_given_its_time_limit_then_504() {
    let stage = Stage::with(|config| config.var("ORIGIN_TIMEOUT_MS", 400));
    stage.origin.set(Mood::Silent);
    for path in ["/feed", "/posts/1"] {
        let start = Instant::now();
        let answer = stage.edge.get(path).unwrap();
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (504, r#"{"error":"origin timed out"}"#)
        );
        assert!(
            start.elapsed() < Duration::from_millis(1_500),
            "{:?}",
            start.elapsed()
        );
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
}

#[test]
fn readers_of_a_silent_origin_share_one_wait() {
    let stage = Stage::with(|config| config.var("ORIGIN_TIMEOUT_MS", 1_000));
    stage.origin.set(Mood::Silent);
    let start = Instant::now();
    let answers = stage.crowd(50, "/feed");
    assert!(answers.iter().all(|a| a.status == 504 || a.status == 502));
    assert!(
        start.elapsed() < Duration::from_millis(2_500),
        "{:?}",
        start.elapsed()
    );
    assert!(stage.origin.hits("/feed") <= 2);
}

#[test]
fn one_of_two_origins_is_dead_and_no_reader_notices() {
    let (first, second) = (
        ScriptedOrigin::start().unwrap(),
        ScriptedOrigin::start().unwrap(),
    );
    let both = format!("{}, {}", first.base_url(), second.base_url());
    let config = edge_config(&both)
        .var("FEED_TTL_MS", 100)
        .var("FEED_STALE_MS", 0);
    let edge = testbed::Workerd::start(&config).unwrap();

    assert_eq!(edge.get("/posts/1").unwrap().status, 200);
    assert_eq!(second.total(), 0, "the first is preferred");
    first.stop();
    for round in 0..10 {
        for path in ["/feed", "/posts/1"] {
            let answers = crowd(&edge.url(path), 5);
            assert!(
                answers.iter().all(|a| a.status == 200),
                "round {round}: {answers:?}"
            );
        }
        sleep(Duration::from_millis(60));
    }
    assert!(second.total() > 0);

    first.resume().unwrap();
    let before = first.total();
    let start = Instant::now();
    while first.total() == before {
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "the first is never tried again"
        );
        assert_eq!(edge.get("/posts/1").unwrap().status, 200);
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_write_that_may_have_arrived_is_not_sent_again() {
    let (first, second) = (
        ScriptedOrigin::start().unwrap(),
        ScriptedOrigin::start().unwrap(),
    );
    let both = format!("{} {}", first.base_url(), second.base_url());
    let edge = testbed::Workerd::start(&edge_config(&both)).unwrap();
    first.set(Mood::Rude);
    let answer = edge.post("/posts/1/like", Some(&token(1)), "").unwrap();
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (502, r#"{"error":"origin unreachable"}"#)
    );
    assert_eq!(first.arrived("POST", "/posts/1/like").len(), 1);
    assert_eq!(second.total(), 0);

    // From then on writes go where they are answered.
    for _ in 0..3 {
        assert_eq!(
            edge.post("/posts/1/like", Some(&token(1)), "")
                .unwrap()
                .status,
            201
        );
        sleep(Duration::from_millis(200));
    }
    assert_eq!(first.arrived("POST", "/posts/1/like").len(), 1);
}

#[test]
fn health_is_the_edges_own_and_deep_is_the_origins() {
    let stage = Stage::new();
    let own = stage.edge.get("/health").unwrap();
    assert_eq!(own.status, 200);
    assert!(
        own.body
            .starts_with(r#"{"status":"ok","db":"ok","uptime_s":"#),
        "{}",
        own.body
    );
    let deep = stage.edge.get("/health?deep=1").unwrap();
    assert_eq!(deep.body, r#"{"status":"ok","db":"ok","uptime_s":1}"#);

    stage.origin.stop();
    assert_eq!(stage.edge.get("/health?deep=1").unwrap().status, 502);
    sleep(Duration::from_millis(1_100));
    let own = http::get(&stage.edge.url("/health")).unwrap();
    assert_eq!(own.status, 503);
    assert_eq!(
        own.body,
        r#"{"status":"degraded","db":"unreachable","error":"no origin is well"}"#
    );
}
