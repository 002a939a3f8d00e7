use std::thread::sleep;
use std::time::{Duration, Instant};

use testbed::http;
use testbed::scripted_origin::Mood;

use crate::stage::{RawClient, STALE, Stage, TTL, now_ms, number};

#[test]
fn two_hundred_readers_of_a_cold_edge_cost_the_origin_one_request() {
    let stage = Stage::new();
    stage.origin.set(Mood::Slow(Duration::from_millis(500)));
    let answers = stage.crowd(200, "/feed");
    assert!(
        answers
            .iter()
            .all(|a| a.status == 200 && a.body == answers[0].body)
    );
    assert_eq!(stage.origin.hits("/feed"), 1);
    let collapsed = |a: &&http::Answer| a.header("cache-status").unwrap().contains("collapsed");
    assert!(answers.iter().filter(collapsed).count() > 100);
}

#[test]
fn two_hundred_readers_of_an_expired_feed_cost_one_more_and_nobody_waits() {
    let stage = Stage::new();
    stage.warm();
    stage.origin.set(Mood::Slow(Duration::from_millis(1_500)));
    sleep(TTL);
    let start = Instant::now();
    let answers = stage.crowd(200, "/feed");
    assert!(
        start.elapsed() < Duration::from_millis(1_200),
        "{:?}",
        start.elapsed()
    );
    assert!(
        answers
            .iter()
            .all(|a| a.status == 200 && number(a, "version") == 1)
    );
    assert_eq!(stage.origin.hits("/feed"), 2);

    // And the one in the background brings the new feed for those who come later.
    sleep(Duration::from_millis(1_700).saturating_sub(start.elapsed()));
    assert_eq!(number(&stage.feed(), "version"), 2);
}

#[test]
fn a_fresh_feed_asks_nobody_and_tells_its_age() {
    let stage = Stage::new();
    let first = stage.warm();
    assert_eq!(
        first.header("cache-status"),
        Some("onebox; fwd=miss; fwd-status=200; stored")
    );
    let second = stage.feed();
    assert_eq!(second.header("cache-status"), Some("onebox; hit; ttl=0"));
    assert_eq!(second.header("age"), Some("0"));
    assert_eq!(second.body, first.body);
    assert_eq!(stage.origin.hits("/feed"), 1);

    sleep(TTL);
    let third = stage.feed();
    assert_eq!(third.header("cache-status"), Some("onebox; hit; ttl=-1"));
    assert_eq!(third.header("age"), Some("1"));
}

#[test]
fn the_leaders_client_resets_its_connection_and_all_others_are_served() {
    let stage = Stage::new();
    stage.origin.set(Mood::Slow(Duration::from_millis(800)));
    let mut leader = RawClient::connect(&stage.edge);
    leader.get("/feed");
    while stage.origin.hits("/feed") == 0 {
        sleep(Duration::from_millis(5));
    }
    std::thread::scope(|scope| {
        let followers = scope.spawn(|| stage.crowd(29, "/feed"));
        sleep(Duration::from_millis(200));
        leader.reset();
        let answers = followers.join().unwrap();
        assert!(answers.iter().all(|a| a.status == 200), "{answers:?}");
    });
    assert_eq!(stage.origin.hits("/feed"), 1);
}

#[test]
fn the_refreshers_client_resets_its_connection_and_the_refresh_goes_on() {
    let stage = Stage::new();
    stage.warm();
    sleep(TTL);
    stage.origin.set(Mood::Slow(Duration::from_millis(300)));
    let mut refresher = RawClient::connect(&stage.edge);
    refresher.get("/feed");
    while stage.origin.hits("/feed") == 1 {
        sleep(Duration::from_millis(5));
    }
    refresher.reset();
    sleep(Duration::from_millis(600));
    assert_eq!(number(&stage.feed(), "version"), 2);
    assert_eq!(stage.origin.hits("/feed"), 2);
}

#[test]
fn a_slow_origin_keeps_no_reader_waiting_while_the_feed_may_be_stale() {
    let stage = Stage::new();
    stage.warm();
    stage.origin.set(Mood::Slow(Duration::from_millis(1_500)));
    sleep(TTL);
    for _ in 0..20 {
        let start = Instant::now();
        assert_eq!(stage.feed().status, 200);
        assert!(
            start.elapsed() < Duration::from_millis(300),
            "{:?}",
            start.elapsed()
        );
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_unchanged_feed_costs_no_body() {
    let stage = Stage::new();
    stage.origin.freeze();
    let first = stage.warm();
    assert_eq!(
        stage.origin.arrived("GET", "/feed")[0].headers["if-none-match"],
        "\"0\""
    );

    // Older than the stale bound, so that this reader waits for the revalidation.
    sleep(TTL + STALE);
    let second = stage.feed();
    assert_eq!(
        second.header("cache-status"),
        Some("onebox; fwd=stale; fwd-status=304")
    );
    assert_eq!(second.body, first.body);
    assert_eq!(
        stage.origin.arrived("GET", "/feed")[1].headers["if-none-match"],
        first.header("etag").unwrap()
    );
    assert_eq!(
        stage.feed().header("cache-status"),
        Some("onebox; hit; ttl=0")
    );

    stage.origin.change();
    sleep(TTL + STALE);
    let third = stage.feed();
    assert_ne!(third.body, first.body);
    assert_ne!(third.header("etag"), first.header("etag"));
}

#[test]
fn a_reader_who_has_the_feed_already_gets_304() {
    let stage = Stage::new();
    let etag = stage.warm().header("etag").unwrap().to_owned();
    let ask = |wanted: &str| {
        let url = stage.edge.url("/feed");
        http::request("GET", &url, &[("if-none-match", wanted)], "").unwrap()
    };
    for wanted in [&etag, &format!("\"x\", W/{etag}"), "*"] {
        let answer = ask(wanted);
        assert_eq!((answer.status, answer.body.as_str()), (304, ""), "{wanted}");
        assert_eq!(answer.header("etag"), Some(etag.as_str()));
        assert!(answer.header("cache-control").is_some());
    }
    assert_eq!(ask("\"other\"").status, 200);
    assert_eq!(stage.origin.hits("/feed"), 1);
}

#[test]
fn query_strings_do_not_split_the_cache() {
    let stage = Stage::new();
    stage.warm();
    for path in ["/feed?", "/feed?x=1", "/feed?x=2&y", "/feed?/posts"] {
        assert_eq!(stage.edge.get(path).unwrap().status, 200);
    }
    assert_eq!(stage.origin.hits("/feed"), 1);
    assert_eq!(stage.origin.total(), 1);
}

/// The promise of the whole thing: while the origin is well, nothing that is served is older than
/// fresh time plus stale time. The origin writes into each body when it was rendered.
#[test]
fn nothing_is_ever_older_than_its_bound_under_load() {
    let (ttl, stale) = (Duration::from_millis(200), Duration::from_millis(300));
    let stage = Stage::with(|config| {
        config
            .var("FEED_TTL_MS", ttl.as_millis())
            .var("FEED_STALE_MS", stale.as_millis())
    });
    // Not quite at once, so that refreshes overlap with readers.
    stage.origin.set(Mood::Slow(Duration::from_millis(20)));
    let deadline = Instant::now() + Duration::from_secs(5);
    let url = stage.edge.url("/feed");
    let oldest_ms = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..8)
            .map(|reader| {
                let url = &url;
                scope.spawn(move || {
                    let mut oldest_ms = 0;
                    while Instant::now() < deadline {
                        let asked_ms = now_ms();
                        let answer = http::get(url).unwrap();
                        assert_eq!(answer.status, 200);
                        let rendered_ms = number(&answer, "rendered_ms");
                        oldest_ms = oldest_ms.max(asked_ms.saturating_sub(rendered_ms));
                        // One of them comes seldom: it meets feeds that nobody has refreshed.
                        sleep(Duration::from_millis(if reader == 0 { 450 } else { 1 }));
                    }
                    oldest_ms
                })
            })
            .collect();
        readers
            .into_iter()
            .map(|r| r.join().unwrap())
            .max()
            .unwrap()
    });
    let bound_ms = (ttl + stale).as_millis() as u64;
    assert!(
        oldest_ms < bound_ms,
        "{oldest_ms} ms old, the bound is {bound_ms}"
    );
    let fetches = stage.origin.hits("/feed");
    // 5 s hold 25 windows of 200 ms; each of them is fetched once at most.
    assert!((10..=26).contains(&fetches), "{fetches} fetches");
}
