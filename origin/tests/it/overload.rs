//! More writes than the database takes.

use std::time::{Duration, Instant};

use crate::support::{Client, hold_write_lock, origin, token_of};

/// More than the writer's queue and the group in its hands hold together.
const WRITERS: usize = 5_000;

#[test]
fn a_full_queue_refuses_at_once_while_reads_and_health_go_on() {
    rlimit::increase_nofile_limit(u64::MAX).unwrap();
    let (origin, dataset) = origin(&[]);
    let request = Client::post("/posts", &token_of(1), r#"{"body":"one of many"}"#);
    let lock = hold_write_lock(&dataset.path());
    let mut clients: Vec<Client> = (0..WRITERS)
        .map(|_| {
            let mut client = Client::connect(&origin);
            client.send(&request);
            client
        })
        .collect();

    // The last to come is refused, and not after a wait.
    let start = Instant::now();
    let (head, body) = clients.pop().unwrap().receive();
    assert!(start.elapsed() < Duration::from_secs(3));
    assert!(head.starts_with("http/1.1 503 "), "{head}");
    assert!(head.contains("retry-after: 1\r\n"), "{head}");
    assert_eq!(body, r#"{"error":"overloaded"}"#);
    for path in ["/health", "/feed", "/posts/1"] {
        assert_eq!(origin.get(path).unwrap().status, 200, "{path}");
    }

    // Those that wait are not forgotten: each is answered, and as it says.
    drop(lock);
    let mut created = 0_i64;
    for client in &mut clients {
        match client.receive_status() {
            201 => created += 1,
            503 => {}
            status => panic!("{status}"),
        }
    }
    assert!(
        (4_000..WRITERS as i64).contains(&created),
        "{created} of {WRITERS}"
    );
    let database = rusqlite::Connection::open(dataset.path()).unwrap();
    let count = "SELECT count(*) FROM posts WHERE body = 'one of many'";
    let stored: i64 = database.query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(stored, created);
    let after = origin
        .post("/posts", Some(&token_of(1)), r#"{"body":"next"}"#)
        .unwrap();
    assert_eq!(after.status, 201);
}
