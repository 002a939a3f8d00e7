//! Two real origins on one PostgreSQL behind one edge, under load, and one of them is killed.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use testbed::dataset::{Datasets, Scale};
use testbed::{Origin, OriginConfig, Workerd, origin, postgres};

use crate::stage::{edge_config, token};

const READERS: usize = 6;
const WRITERS: i64 = 2;
const THINK: Duration = Duration::from_millis(5);

#[derive(Default)]
struct Seen {
    reads: usize,
    failed_reads: usize,
    slowest_read: Duration,
    writes: usize,
    failed_writes: usize,
    slowest_write: Duration,
}

#[test]
fn an_origin_that_is_killed_costs_no_read_and_no_acknowledged_write() {
    let binary = origin::binary("dev").unwrap();
    let database = Datasets::new(&binary)
        .postgres(Scale::Small, postgres::Options::default())
        .unwrap();
    let start = || Origin::start(OriginConfig::new(&binary, &database.url())).unwrap();
    let (mut first, second) = (start(), start());
    let origins = format!("{},{}", first.base_url(), second.base_url());
    let edge = Workerd::start(&edge_config(&origins)).unwrap();

    let stop = AtomicBool::new(false);
    let phases = [(); 3].map(|()| Mutex::new(Seen::default()));
    let now_in = Mutex::new(0);
    let acknowledged = Mutex::new(BTreeSet::new());
    // A request belongs to the phase in which it ended.
    let note = |is_read: bool, took: Duration, failed: bool| {
        let mut seen = phases[*now_in.lock().unwrap()].lock().unwrap();
        let Seen {
            reads,
            failed_reads,
            slowest_read,
            writes,
            failed_writes,
            slowest_write,
        } = &mut *seen;
        let (all, failures, slowest) = match is_read {
            true => (reads, failed_reads, slowest_read),
            false => (writes, failed_writes, slowest_write),
        };
        *all += 1;
        *failures += usize::from(failed);
        *slowest = took.max(*slowest);
    };
    let read = || {
        for turn in 0.. {
            if stop.load(SeqCst) {
                return;
            }
            let path = match turn % 2 {
                0 => "/feed".to_owned(),
                _ => format!("/posts/{}", turn % 100 + 1),
            };
            let asked = Instant::now();
            let answer = edge.get(&path);
            let failed = !answer.is_ok_and(|answer| answer.status == 200);
            note(true, asked.elapsed(), failed);
            sleep(THINK);
        }
    };
    let write = |user_id: i64| {
        let token = token(user_id);
        while !stop.load(SeqCst) {
            let asked = Instant::now();
            let answer = edge.post("/posts", Some(&token), r#"{"body":"kept"}"#);
            let created = answer.ok().filter(|answer| answer.status == 201);
            note(false, asked.elapsed(), created.is_none());
            if let Some(created) = created {
                let post: serde_json::Value = serde_json::from_str(&created.body).unwrap();
                let id = post["post"]["id"].as_i64().unwrap();
                acknowledged.lock().unwrap().insert(id.to_string());
            }
            sleep(THINK * 2);
        }
    };
    let mut restarted = None;
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(read);
        }
        for user_id in 1..=WRITERS {
            scope.spawn(move || write(user_id));
        }
        sleep(Duration::from_secs(2));
        *now_in.lock().unwrap() = 1;
        let port = first.port();
        first.kill();
        sleep(Duration::from_secs(3));
        *now_in.lock().unwrap() = 2;
        let config = OriginConfig::new(&binary, &database.url()).env("PORT", port);
        restarted = Some(Origin::start(config));
        sleep(Duration::from_secs(2));
        stop.store(true, SeqCst);
    });
    assert!(restarted.unwrap().is_ok());

    let phases = phases.map(|seen| seen.into_inner().unwrap());
    for (seen, name) in phases.iter().zip(["both up", "first killed", "first back"]) {
        println!(
            "{name}: {} reads, {} failed, slowest {:.1?}; {} writes, {} failed, slowest {:.1?}",
            seen.reads,
            seen.failed_reads,
            seen.slowest_read,
            seen.writes,
            seen.failed_writes,
            seen.slowest_write,
        );
        assert!(seen.reads > 100 && seen.writes > 20, "{name}");
        assert_eq!(seen.failed_reads, 0, "{name}");
    }
    let [up, killed, back] = &phases;
    assert_eq!(up.failed_writes + back.failed_writes, 0);
    // A write is not sent again, since it may have arrived: those that were under way, and no more.
    assert!(killed.failed_writes <= WRITERS as usize);

    let stored = database.query("SELECT id FROM posts").unwrap();
    let stored: BTreeSet<String> = stored.lines().map(str::to_owned).collect();
    let acknowledged = acknowledged.into_inner().unwrap();
    println!("acknowledged: {}", acknowledged.len());
    assert!(acknowledged.is_subset(&stored), "a write is lost");
}
