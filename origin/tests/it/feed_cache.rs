use shared::api::FEED_POSTS;

use crate::support::{origin, token_of};

fn newest_post(body: &str) -> String {
    let feed: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(feed["posts"].as_array().unwrap().len(), FEED_POSTS);
    feed["posts"][0]["body"].as_str().unwrap().to_owned()
}

#[test]
fn a_create_is_seen_at_once_by_every_worker() {
    let (origin, _dataset) = origin(&[("FEED_CACHE_MS", "60000"), ("WORKERS", "4")]);
    let feed = || {
        // A connection of its own, so that one worker or another answers.
        let headers = [("connection", "close")];
        let answer = testbed::http::request("GET", &origin.url("/feed"), &headers, "");
        newest_post(&answer.unwrap().body)
    };
    for round in 0..5 {
        (0..16).for_each(|_| drop(feed()));
        let body = format!("post of round {round}");
        let request = serde_json::json!({ "body": body }).to_string();
        let created = origin.post("/posts", Some(&token_of(1)), &request).unwrap();
        assert_eq!(created.status, 201);
        for _ in 0..16 {
            assert_eq!(feed(), body);
        }
    }
}

#[test]
fn likes_show_when_the_feed_is_due_again() {
    let (origin, _dataset) = origin(&[("FEED_CACHE_MS", "4000")]);
    let before = origin.get("/feed").unwrap().body;
    let feed: serde_json::Value = serde_json::from_str(&before).unwrap();
    let (id, likes) = (&feed["posts"][0]["id"], &feed["posts"][0]["like_count"]);
    // Somebody who has not liked it yet.
    let liked = (1..100).any(|user_id| {
        let path = format!("/posts/{id}/like");
        origin
            .post(&path, Some(&token_of(user_id)), "")
            .unwrap()
            .status
            == 201
    });
    assert!(liked);
    assert_eq!(origin.get("/feed").unwrap().body, before);
    let expected = likes.as_u64().unwrap() + 1;
    testbed::wait_until(
        "the like to show",
        std::time::Duration::from_secs(15),
        || {
            let feed: serde_json::Value = serde_json::from_str(&origin.get("/feed")?.body).unwrap();
            Ok(feed["posts"][0]["like_count"] == expected)
        },
    )
    .unwrap();
}
