//! How it ends.

use std::thread;
use std::time::{Duration, Instant};

use testbed::process::Signal;

use crate::support::{Client, PATIENCE, hold_write_lock, origin, origin_on, token_of};

#[test]
fn requests_in_flight_are_answered_and_their_writes_are_there() {
    for signal in [Signal::TERM, Signal::INT] {
        let (mut origin, dataset) = origin(&[("WORKERS", "2")]);
        let lock = hold_write_lock(&dataset.path());
        let mut clients: Vec<Client> = (0..32)
            .map(|_| {
                let mut client = Client::connect(&origin);
                client.send(Client::post(
                    "/posts",
                    &token_of(1),
                    r#"{"body":"in flight"}"#,
                ));
                client
            })
            .collect();
        let address = origin.address();
        origin.signal(signal).unwrap();
        let told = Instant::now();
        origin.log().wait_for("stopping", PATIENCE).unwrap();
        // Nobody new gets in.
        testbed::wait_until("the listener to close", PATIENCE, || {
            Ok(std::net::TcpStream::connect(address).is_err())
        })
        .unwrap();
        thread::sleep(Duration::from_millis(300));
        drop(lock);
        for client in &mut clients {
            let (head, body) = client.receive();
            assert!(head.starts_with("http/1.1 201 "), "{head}{body}");
            assert!(head.contains("connection: close\r\n"), "{head}");
        }
        assert!(origin.wait(PATIENCE).unwrap().success());
        assert!(
            told.elapsed() < Duration::from_secs(10),
            "{:?}",
            told.elapsed()
        );

        let origin = origin_on(&dataset, &[]);
        let feed = origin.get("/feed").unwrap().body;
        assert_eq!(feed.matches("in flight").count(), 20);
    }
}

#[test]
fn idle_connections_do_not_hold_it_up() {
    let (mut origin, _dataset) = origin(&[]);
    let mut idle = Client::connect(&origin);
    idle.send("GET /feed HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(idle.receive_status(), 200);
    let _silent = Client::connect(&origin);
    let told = Instant::now();
    assert!(origin.terminate().unwrap().success());
    assert!(
        told.elapsed() < Duration::from_secs(5),
        "{:?}",
        told.elapsed()
    );
    assert_eq!(idle.receive_to_the_end(), "");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for second in [Signal::TERM, Signal::INT] {
        let (mut origin, dataset) = origin(&[]);
        let _lock = hold_write_lock(&dataset.path());
        let mut client = Client::connect(&origin);
        client.send(Client::post(
            "/posts",
            &token_of(1),
            r#"{"body":"unfinished"}"#,
        ));
        // So that the write has arrived.
        assert_eq!(origin.get("/health").unwrap().status, 200);
        origin.signal(Signal::TERM).unwrap();
        origin.log().wait_for("stopping", PATIENCE).unwrap();
        let told = Instant::now();
        origin.signal(second).unwrap();
        let status = origin.wait(PATIENCE).unwrap();
        assert_eq!(status.code(), Some(1));
        assert!(
            told.elapsed() < Duration::from_secs(2),
            "{:?}",
            told.elapsed()
        );
    }
}
