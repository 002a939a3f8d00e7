//! What one client may take.

use std::time::{Duration, Instant};

use testbed::wait_until;

use crate::support::{Client, PATIENCE, origin, token_of};

const TIMED_OUT: &str = r#"{"error":"request timed out"}"#;

#[test]
fn one_connection_too_many_is_told_to_come_back() {
    let (origin, _dataset) = origin(&[("MAX_CONNECTIONS", "8")]);
    let mut held = Vec::new();
    let refusal = loop {
        let mut client = Client::connect(&origin);
        client.send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
        let (head, body) = client.receive();
        if head.starts_with("http/1.1 503 ") {
            assert_eq!(client.receive_to_the_end(), "");
            break (head, body);
        }
        held.push(client);
    };
    // The client that waited for the origin's start may hold one.
    assert!((7..=8).contains(&held.len()), "{}", held.len());
    assert_eq!(refusal.1, r#"{"error":"overloaded"}"#);
    assert!(refusal.0.contains("retry-after: 1\r\n"), "{}", refusal.0);
    assert!(refusal.0.contains("connection: close\r\n"), "{}", refusal.0);

    drop(held.pop());
    wait_until("a free place", PATIENCE, || {
        let mut client = Client::connect(&origin);
        client.send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
        Ok(client.receive_status() == 200)
    })
    .unwrap();
    held.iter_mut().for_each(|client| {
        client.send("GET /feed HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.receive_status(), 200);
    });
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let (origin, _dataset) = origin(&[("IDLE_TIMEOUT_MS", "400")]);
    let mut silent = Client::connect(&origin);
    let mut idle = Client::connect(&origin);
    let start = Instant::now();
    for _ in 0..4 {
        // Each request begins the time anew.
        std::thread::sleep(Duration::from_millis(150));
        idle.send("GET /posts/1 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(idle.receive_status(), 200);
    }
    assert_eq!(silent.receive_to_the_end(), "");
    assert_eq!(idle.receive_to_the_end(), "");
    assert!(start.elapsed() >= Duration::from_millis(4 * 150 + 400));
}

#[test]
fn a_head_must_arrive_in_time() {
    let (origin, _dataset) = origin(&[("HEAD_TIMEOUT_MS", "300")]);
    for begun in ["G", "GET /feed HTTP/1.1\r\nHost: a\r\n"] {
        let mut client = Client::connect(&origin);
        client.send(begun);
        let answer = client.receive_to_the_end();
        assert!(answer.starts_with("http/1.1 408 "), "{answer}");
        assert!(answer.ends_with(TIMED_OUT), "{answer}");
    }
}

#[test]
fn a_head_that_comes_in_drops_gets_no_more_time() {
    let (origin, _dataset) = origin(&[("HEAD_TIMEOUT_MS", "500")]);
    let mut client = Client::connect(&origin);
    let start = Instant::now();
    let mut reader = Client(client.0.try_clone().unwrap());
    let answer = std::thread::spawn(move || reader.receive_to_the_end());
    client.send("GET /feed HTTP/1.1\r\n");
    while !answer.is_finished() {
        assert!(start.elapsed() < PATIENCE);
        // The server may have closed it by now.
        let _ = std::io::Write::write_all(&mut client.0, b"X: y\r\n");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(answer.join().unwrap().starts_with("http/1.1 408 "));
}

#[test]
fn a_body_must_arrive_in_time() {
    let (origin, _dataset) = origin(&[("BODY_TIMEOUT_MS", "300")]);
    let whole = Client::post("/posts", &token_of(1), r#"{"body":"too late"}"#);
    let mut client = Client::connect(&origin);
    client.send(&whole[..whole.len() - 2]);
    let answer = client.receive_to_the_end();
    assert!(answer.starts_with("http/1.1 408 "), "{answer}");
    assert!(answer.ends_with(TIMED_OUT), "{answer}");
    assert!(!origin.get("/feed").unwrap().body.contains("too late"));
}

#[test]
fn a_client_that_does_not_read_is_given_up() {
    let metrics = format!("127.0.0.1:{}", testbed::free_port());
    let (origin, _dataset) = origin(&[("WRITE_TIMEOUT_MS", "300"), ("METRICS_ADDR", &metrics)]);
    let open = || {
        let page = testbed::http::get(&format!("http://{metrics}/metrics"))?.body;
        let line = page
            .lines()
            .find(|line| line.starts_with("http_connections_open"));
        Ok(line
            .unwrap()
            .rsplit(' ')
            .next()
            .unwrap()
            .parse::<usize>()
            .unwrap())
    };
    let before = open().unwrap();
    let mut client = Client::connect(&origin);
    client
        .0
        .set_write_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    // Until all buffers on the way are full, and the server waits for this client.
    let requests = "GET /feed HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1_000);
    while std::io::Write::write_all(&mut client.0, requests.as_bytes()).is_ok() {}
    wait_until("the connection to be closed", PATIENCE, || {
        Ok(open()? <= before)
    })
    .unwrap();
    assert_eq!(origin.get("/feed").unwrap().status, 200);
}
