//! What was acknowledged stays.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use testbed::wait_until;

use crate::support::{Client, PATIENCE, origin, origin_on, token_of};

#[test]
fn of_concurrent_likes_one_is_new() {
    let (origin, _dataset) = origin(&[("WORKERS", "2")]);
    let token = token_of(1);
    // None of the small dataset's likes is of a post made here.
    let created = origin
        .post("/posts", Some(&token), r#"{"body":"like me"}"#)
        .unwrap();
    let post: serde_json::Value = serde_json::from_str(&created.body).unwrap();
    let id = &post["post"]["id"];
    let request = Client::post(&format!("/posts/{id}/like"), &token, "");
    let all_there = Barrier::new(16);
    let mut statuses: Vec<u16> = thread::scope(|scope| {
        let likes: Vec<_> = (0..16)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = Client::connect(&origin);
                    all_there.wait();
                    client.send(&request);
                    client.receive_status()
                })
            })
            .collect();
        likes.into_iter().map(|like| like.join().unwrap()).collect()
    });
    statuses.sort_unstable();
    assert_eq!(statuses[..15], [200; 15]);
    assert_eq!(statuses[15], 201);
    let read: serde_json::Value =
        serde_json::from_str(&origin.get(&format!("/posts/{id}")).unwrap().body).unwrap();
    assert_eq!(read["post"]["like_count"], 1);
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let (mut origin, dataset) = origin(&[("WORKERS", "2")]);
    let token = token_of(1);
    let acknowledged = AtomicUsize::new(0);
    let posts: Vec<i64> = thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|_| {
                let mut client = Client::connect(&origin);
                let request = Client::post("/posts", &token, r#"{"body":"kept"}"#);
                let acknowledged = &acknowledged;
                scope.spawn(move || write_until_the_end(&mut client, &request, acknowledged))
            })
            .collect();
        wait_until("writes", PATIENCE, || {
            Ok(acknowledged.load(Ordering::Relaxed) > 500)
        })
        .unwrap();
        origin.kill();
        writers
            .into_iter()
            .flat_map(|writer| writer.join().unwrap())
            .collect()
    });
    assert!(posts.len() > 500);

    let origin = origin_on(&dataset, &[]);
    for id in &posts {
        let post = origin.get(&format!("/posts/{id}")).unwrap();
        assert_eq!(post.status, 200, "post {id} of {} is lost", posts.len());
    }
}

/// The ids of the posts that were acknowledged before the connection broke.
fn write_until_the_end(client: &mut Client, request: &str, acknowledged: &AtomicUsize) -> Vec<i64> {
    use std::io::{Read, Write};
    let mut ids = Vec::new();
    let mut buffer = [0; 4_096];
    while client.0.write_all(request.as_bytes()).is_ok() {
        // One response is one segment: the server sends it in one write.
        let Ok(1..) = client.0.peek(&mut buffer) else {
            break;
        };
        let read = client.0.read(&mut buffer).unwrap();
        let text = std::str::from_utf8(&buffer[..read]).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            break;
        };
        assert!(head.starts_with("HTTP/1.1 201 "), "{head}");
        let post: serde_json::Value = serde_json::from_str(body).unwrap();
        ids.push(post["post"]["id"].as_i64().unwrap());
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    ids
}
