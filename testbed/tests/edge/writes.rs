use testbed::http;
use testbed::scripted_origin::Mood;

use crate::stage::{RawClient, Stage, number, token};

#[test]
fn what_is_refused_never_reaches_the_origin() {
    let stage = Stage::new();
    let good = format!("Bearer {}", token(1));
    let bad = format!("Bearer {}x", token(1));
    let long = format!(r#"{{"body":"{}"}}"#, "x".repeat(501));
    let huge = format!(r#"{{"body":"x","pad":"{}"}}"#, "x".repeat(16_384));
    for (path, authorization, body, status, error) in [
        ("/posts", "", r#"{"body":"x"}"#, 401, "missing bearer token"),
        (
            "/posts",
            "Basic eA==",
            r#"{"body":"x"}"#,
            401,
            "missing bearer token",
        ),
        (
            "/posts",
            &bad,
            r#"{"body":"x"}"#,
            401,
            "invalid or expired token",
        ),
        ("/posts", &good, "{bad json", 400, "malformed JSON body"),
        ("/posts", &good, "", 400, "malformed JSON body"),
        ("/posts", &good, r#"{"body":" "}"#, 400, "body is required"),
        (
            "/posts",
            &good,
            &long,
            400,
            "body must be at most 500 characters",
        ),
        ("/posts", &good, &huge, 413, "request body too large"),
        ("/posts/abc/like", "", "", 401, "missing bearer token"),
        ("/posts/abc/like", &good, "", 400, "invalid post id"),
        ("/posts//like", &good, "", 400, "invalid post id"),
        (
            "/posts/9007199254740992/like",
            &good,
            "",
            400,
            "invalid post id",
        ),
        ("/nope", &good, "", 404, "not found"),
        ("/health", &good, "", 405, "method not allowed"),
    ] {
        let headers = [("authorization", authorization)];
        let headers = if authorization.is_empty() {
            &[][..]
        } else {
            &headers
        };
        let answer = http::request("POST", &stage.edge.url(path), headers, body).unwrap();
        assert_eq!(
            (answer.status, answer.body),
            (status, format!(r#"{{"error":"{error}"}}"#)),
            "{path} {body:.40}"
        );
    }
    assert_eq!(stage.origin.total(), 0);
}

#[test]
fn a_body_of_unknown_length_is_taken_in_no_further_than_its_limit() {
    let stage = Stage::new();
    let post = |bytes: usize| {
        let mut client = RawClient::connect(&stage.edge);
        client.send(&format!(
            "POST /posts HTTP/1.1\r\nhost: edge\r\nconnection: close\r\nauthorization: Bearer {}\r\n\
             transfer-encoding: chunked\r\n\r\n",
            token(1)
        ));
        let body = format!(r#"{{"pad":"{}","body":"x"}}"#, "y".repeat(bytes));
        for chunk in body.as_bytes().chunks(4_096) {
            let chunk = std::str::from_utf8(chunk).unwrap();
            client.send(&format!("{:x}\r\n{chunk}\r\n", chunk.len()));
        }
        client.send("0\r\n\r\n");
        client.read_to_end()
    };
    assert!(post(16_000).starts_with("HTTP/1.1 201"));
    let refused = post(20_000);
    assert!(refused.starts_with("HTTP/1.1 413"), "{refused}");
    assert_eq!(stage.origin.total(), 1);
}

#[test]
fn a_create_drops_the_feed_and_a_failed_one_does_not() {
    let stage = Stage::new();
    stage.warm();
    let create = || {
        stage
            .edge
            .post("/posts", Some(&token(1)), r#"{"body":"x"}"#)
            .unwrap()
    };
    assert_eq!(create().status, 201);
    assert_eq!(number(&stage.feed(), "version"), 2);

    stage.origin.set(Mood::Broken);
    let broken = create();
    assert_eq!(
        (broken.status, broken.body.as_str()),
        (500, r#"{"error":"internal server error"}"#)
    );
    assert_eq!(number(&stage.feed(), "version"), 2);
    assert_eq!(
        stage.origin.arrived("POST", "/posts").len(),
        2,
        "a write is never repeated"
    );
}

#[test]
fn a_write_counts_although_its_client_left() {
    let stage = Stage::new();
    stage.warm();
    stage
        .origin
        .set(Mood::Slow(std::time::Duration::from_millis(400)));
    let mut client = RawClient::connect(&stage.edge);
    client.send(&format!(
        "POST /posts/1/like HTTP/1.1\r\nhost: edge\r\nauthorization: Bearer {}\r\ncontent-length: 0\r\n\r\n",
        token(1)
    ));
    while stage.origin.arrived("POST", "/posts/1/like").is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    client.reset();
    std::thread::sleep(std::time::Duration::from_millis(700));
    stage.origin.set(Mood::Well);
    // Well within its fresh time, and yet fetched anew: the like was heard of.
    assert_eq!(number(&stage.feed(), "version"), 2);
}
