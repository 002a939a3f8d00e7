//! `CACHE = "platform"`: the platform's cache is told by headers and the isolate keeps nothing.
//! What the platform makes of them cannot be shown here: no local runtime has that cache.

use testbed::scripted_origin::Mood;

use crate::stage::Stage;

fn stage() -> Stage {
    Stage::with(|config| {
        config
            .var("CACHE", "platform")
            .var("FEED_STALE_MS", 2_500)
            .var("STALE_IF_ERROR_MS", 60_000)
    })
}

const FOR_PLATFORM: &str = "public, max-age=1, stale-while-revalidate=2, stale-if-error=60";

#[test]
fn the_feed_tells_the_platform_its_windows_and_a_browser_to_ask_again() {
    let stage = stage();
    for _ in 0..2 {
        let feed = stage.feed();
        assert_eq!(
            feed.header("cloudflare-cdn-cache-control"),
            Some(FOR_PLATFORM)
        );
        assert_eq!(feed.header("cache-control"), Some("public, max-age=0"));
        assert!(feed.header("etag").is_some());
        assert_eq!(feed.header("age"), None);
    }
    assert_eq!(stage.origin.hits("/feed"), 2, "the isolate keeps nothing");
}

#[test]
fn with_a_query_the_isolate_keeps_the_feed_and_the_platform_must_not() {
    let stage = stage();
    for query in ["?x=1", "?x=2", "?x=3"] {
        let feed = stage.edge.get(&format!("/feed{query}")).unwrap();
        assert_eq!(feed.header("cache-control"), Some("no-store"));
        assert_eq!(feed.header("cloudflare-cdn-cache-control"), None);
    }
    assert_eq!(stage.origin.hits("/feed"), 1);
}

#[test]
fn a_failure_is_not_kept_so_that_the_platform_serves_stale() {
    let stage = stage();
    stage.origin.set(Mood::Rude);
    let feed = stage.feed();
    assert_eq!(feed.status, 502);
    assert_eq!(feed.header("cache-control"), Some("no-store"));
    assert_eq!(feed.header("cloudflare-cdn-cache-control"), None);
}

#[test]
fn single_posts_are_the_platforms_only_where_that_is_switched_on() {
    let off = stage();
    let post = off.edge.get("/posts/1").unwrap();
    assert_eq!(post.header("cache-control"), Some("no-store"));

    let on = Stage::with(|config| {
        config
            .var("CACHE", "platform")
            .var("POST_TTL_MS", 1_000)
            .var("FEED_STALE_MS", 2_500)
            .var("STALE_IF_ERROR_MS", 60_000)
    });
    let post = on.edge.get("/posts/1").unwrap();
    assert_eq!(
        post.header("cloudflare-cdn-cache-control"),
        Some(FOR_PLATFORM)
    );
    let missing = on.edge.get("/posts/404").unwrap();
    assert_eq!(missing.status, 404);
    assert_eq!(missing.header("cache-control"), Some("no-store"));
}
