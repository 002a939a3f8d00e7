//! Single posts, where keeping them is switched on.

use std::thread::sleep;
use std::time::Duration;

use testbed::scripted_origin::Mood;

use crate::stage::{Stage, TTL, token};

fn stage(entries: usize) -> Stage {
    Stage::with(|config| {
        config
            .var("POST_TTL_MS", TTL.as_millis())
            .var("POST_ENTRIES", entries)
    })
}

#[test]
fn by_default_every_read_of_a_post_is_the_origins() {
    let stage = Stage::new();
    for _ in 0..3 {
        let post = stage.edge.get("/posts/1").unwrap();
        assert_eq!(post.header("cache-status"), Some("onebox; fwd=bypass"));
    }
    assert_eq!(stage.origin.hits("/posts/1"), 3);
}

#[test]
fn a_post_is_kept_by_its_number_however_it_is_written() {
    let stage = stage(10);
    for path in ["/posts/1", "/posts/0001", "/posts/1?x=2", "/posts/01?"] {
        let post = stage.edge.get(path).unwrap();
        assert_eq!(post.status, 200);
        assert_eq!(post.header("cache-control"), Some("public, max-age=0"));
    }
    assert_eq!(stage.origin.total(), 1);
}

#[test]
fn a_crowd_at_one_post_costs_one_request() {
    let stage = stage(10);
    stage.origin.set(Mood::Slow(Duration::from_millis(400)));
    let answers = stage.crowd(50, "/posts/1");
    assert!(answers.iter().all(|a| a.status == 200));
    assert_eq!(stage.origin.hits("/posts/1"), 1);
}

#[test]
fn the_least_recently_read_post_goes_first() {
    let stage = stage(2);
    let read = |id: u64| stage.edge.get(&format!("/posts/{id}")).unwrap();
    for id in [1, 2, 1, 3, 1, 2] {
        assert_eq!(read(id).status, 200);
    }
    assert_eq!(
        stage.origin.hits("/posts/1"),
        1,
        "always among the last two"
    );
    assert_eq!(stage.origin.hits("/posts/2"), 2, "3 took its place");
}

#[test]
fn a_post_that_is_not_there_is_not_kept() {
    let stage = stage(10);
    for _ in 0..2 {
        let missing = stage.edge.get("/posts/404").unwrap();
        assert_eq!(
            (missing.status, missing.body.as_str()),
            (404, r#"{"error":"post not found"}"#)
        );
        assert_eq!(missing.header("cache-control"), Some("no-store"));
    }
    assert_eq!(stage.origin.hits("/posts/404"), 2);
}

#[test]
fn a_like_drops_that_post_and_the_feed_and_no_other_post() {
    let stage = stage(10);
    let read_all = || {
        for path in ["/posts/1", "/posts/2", "/feed"] {
            assert_eq!(stage.edge.get(path).unwrap().status, 200);
        }
    };
    read_all();
    let liked = stage
        .edge
        .post("/posts/1/like", Some(&token(1)), "")
        .unwrap();
    assert_eq!(liked.status, 201);
    read_all();
    assert_eq!(stage.origin.hits("/posts/1"), 2);
    assert_eq!(stage.origin.hits("/feed"), 2);
    assert_eq!(stage.origin.hits("/posts/2"), 1);
}

#[test]
fn a_read_that_began_before_a_like_is_not_kept() {
    let stage = stage(10);
    stage.origin.set(Mood::Slow(Duration::from_millis(600)));
    std::thread::scope(|scope| {
        let early = scope.spawn(|| stage.edge.get("/posts/1").unwrap());
        while stage.origin.hits("/posts/1") == 0 {
            sleep(Duration::from_millis(5));
        }
        stage.origin.set(Mood::Well);
        let liked = stage
            .edge
            .post("/posts/1/like", Some(&token(1)), "")
            .unwrap();
        assert_eq!(liked.status, 201);
        assert_eq!(stage.edge.get("/posts/1").unwrap().status, 200);
        assert_eq!(early.join().unwrap().status, 200);
    });
    let hit = stage.edge.get("/posts/1").unwrap();
    assert!(hit.header("cache-status").unwrap().contains("hit"));
    assert_eq!(stage.origin.hits("/posts/1"), 2);
}

#[test]
fn those_who_wait_for_a_read_are_served_although_a_like_comes_in_between() {
    let stage = stage(10);
    stage.origin.set(Mood::Slow(Duration::from_millis(800)));
    std::thread::scope(|scope| {
        let readers = scope.spawn(|| stage.crowd(20, "/feed"));
        while stage.origin.hits("/feed") == 0 {
            sleep(Duration::from_millis(5));
        }
        sleep(Duration::from_millis(200));
        stage.origin.set(Mood::Well);
        for _ in 0..3 {
            let liked = stage
                .edge
                .post("/posts/1/like", Some(&token(1)), "")
                .unwrap();
            assert_eq!(liked.status, 201);
        }
        let answers = readers.join().unwrap();
        assert!(answers.iter().all(|a| a.status == 200), "{answers:?}");
    });
}
