//! Servers killed under load: what readers and writers see, and that no acknowledged write is lost.
//! The figures are printed; deploy/growing.md shows them.

use std::collections::BTreeSet;
use std::time::Duration;

use testbed::postgres::Stop;
use testbed::{Origin, OriginConfig, Postgres, wait_until};

use crate::load::{Load, WRITERS};
use crate::postgres::{likes_that_do_not_add_up, start_server};
use crate::replica::REPLICA_SETTINGS;
use crate::support::{BINARY, PATIENCE};

const S: Duration = Duration::from_secs(1);

fn origin_on(primary: &Postgres, replica: Option<&Postgres>) -> Origin {
    let config = OriginConfig::new(BINARY, &primary.url()).env("WORKERS", 2);
    Origin::start(match replica {
        Some(replica) => config.env("DATABASE_REPLICA_URL", replica.url()),
        None => config,
    })
    .unwrap()
}

fn wait_for_line(origin: &Origin, line: &str) {
    wait_until(line, PATIENCE, || Ok(origin.log().text().contains(line))).unwrap();
}

/// Also of the newest posts and the feed, which writes change all the time and must show.
#[test]
fn under_steady_writes_most_reads_are_the_replicas() {
    let primary = start_server(&[]);
    let replica = primary.start_replica(REPLICA_SETTINGS).unwrap();
    let metrics = format!("127.0.0.1:{}", testbed::free_port());
    let config = OriginConfig::new(BINARY, &primary.url())
        .env("DATABASE_REPLICA_URL", replica.url())
        .env("METRICS_ADDR", &metrics);
    let origin = Origin::start(config).unwrap();
    wait_for_line(&origin, "the replica keeps up");
    let load = Load::at(origin.base_url(), |load| {
        load.phase("both up", || {}, 3 * S);
    });
    println!("{load}");
    let page = testbed::http::get(&format!("http://{metrics}/metrics")).unwrap();
    let value = |series: &str| -> f64 {
        let line = page.body.lines().find_map(|line| line.strip_prefix(series));
        line.unwrap().trim().parse().unwrap()
    };
    let calls = |call: &str| value(&format!("store_group_size_sum{{call=\"{call}\"}}"));
    let on_replica = calls("feed_on_replica") + calls("post_on_replica");
    let on_primary = calls("feed") + calls("post");
    let share = on_replica / (on_replica + on_primary);
    println!("reads that the replica answered: {:.0}%", share * 100.0);
    assert!(share > 0.5, "{share}");
    assert_eq!(value("store_replica_state{state=\"keeps_up\"}"), 1.0);
    assert!(value("store_replica_lag_seconds") < 0.5);
    assert_eq!(load.not_shown(), 0);
}

#[test]
fn the_replica_is_killed_and_then_the_primary() {
    let mut primary = start_server(&[]);
    let mut replica = primary.start_replica(REPLICA_SETTINGS).unwrap();
    let origin = origin_on(&primary, Some(&replica));
    wait_for_line(&origin, "the replica keeps up");

    let mut replicated = String::new();
    let load = Load::at(origin.base_url(), |load| {
        load.phase("both up", || {}, 2 * S);
        let kill = || replica.stop(Stop::Kill).unwrap();
        load.phase("replica killed", kill, 2 * S);
        let start = || replica.start_again().unwrap();
        load.phase("replica started", start, 2 * S);
        let kill = || primary.stop(Stop::Kill).unwrap();
        load.phase("primary killed", kill, 3 * S);
        let posts = "SELECT '/posts/' || id FROM posts";
        replicated = replica.query(posts).unwrap();
        let start = || primary.start_again().unwrap();
        load.phase("primary started", start, 2 * S);
        load.phase("both up", || {}, S);
    });
    println!("{load}");
    let table = load.table();
    let [
        up,
        no_replica,
        replica_back,
        no_primary,
        primary_back,
        after,
    ] = &table[..]
    else {
        panic!("{table:#?}")
    };
    // Whoever reads notices nothing of the replica, and whoever writes neither.
    for phase in [up, no_replica, replica_back, after] {
        assert_eq!(
            (phase.reads.failed, phase.writes.failed),
            (0, 0),
            "{phase:?}"
        );
        assert!(phase.reads.all > 100 && phase.writes.all > 10, "{phase:?}");
    }
    // Without a primary nobody writes, and everybody reads.
    assert!(no_primary.writes.failed * 10 > no_primary.writes.all * 9);
    for phase in [no_primary, primary_back] {
        assert!(phase.reads.all > 100, "{phase:?}");
        assert!(phase.reads.failed * 10 < phase.reads.all, "{phase:?}");
    }
    // But for what the primary took with it, acknowledged and not sent yet: at most one write of
    // each writer.
    let unread = load.failed_reads();
    println!("no answer: {unread:?}; not shown: {}", load.not_shown());
    let replicated: BTreeSet<&str> = replicated.lines().collect();
    let is_there = |path: &String| path == "/feed" || replicated.contains(&**path);
    assert!(!unread.iter().any(is_there), "{unread:?}");
    assert!(load.not_shown() <= WRITERS);
    let lost = load.lost(|sql| primary.query(sql).unwrap());
    println!("acknowledged: {}, lost: {lost:?}", load.acknowledged());
    assert!(lost.is_empty());
    assert_eq!(likes_that_do_not_add_up(&primary), "");
}

/// With `synchronous_standby_names` a write is acknowledged once the replica has it too.
#[test]
fn a_synchronous_replica_promoted_in_a_killed_primarys_place_has_every_acknowledged_write() {
    let mut primary = start_server(&[]);
    let replica = primary.start_replica(REPLICA_SETTINGS).unwrap();
    primary
        .query("ALTER SYSTEM SET synchronous_standby_names = '*'")
        .unwrap();
    primary.query("SELECT pg_reload_conf()").unwrap();
    let is_sync = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
    wait_until("a synchronous replica", PATIENCE, || {
        Ok(primary.query(is_sync)? == "1")
    })
    .unwrap();
    let mut origin = origin_on(&primary, Some(&replica));
    wait_for_line(&origin, "the replica keeps up");
    let load = Load::at(origin.base_url(), |load| {
        load.phase("both up, synchronous", || {}, 2 * S);
        let kill = || primary.stop(Stop::Kill).unwrap();
        load.phase("primary killed", kill, S);
    });
    println!("{load}");
    replica.promote().unwrap();
    origin.terminate().unwrap();
    // As after the change of DATABASE_URL.
    let origin = origin_on(&replica, None);
    let lost = load.lost(|sql| replica.query(sql).unwrap());
    println!("acknowledged: {}, lost: {lost:?}", load.acknowledged());
    assert!(load.acknowledged() > 50 && lost.is_empty());
    assert_eq!(likes_that_do_not_add_up(&replica), "");

    let load = Load::at(origin.base_url(), |load| load.phase("promoted", || {}, S));
    let table = load.table();
    assert!(
        table[0].writes.all > 10 && table[0].writes.failed == 0,
        "{table:?}"
    );
}

#[test]
fn a_replica_that_freezes_under_load_fails_no_read() {
    let primary = start_server(&[]);
    let replica = primary.start_replica(REPLICA_SETTINGS).unwrap();
    let origin = origin_on(&primary, Some(&replica));
    wait_for_line(&origin, "the replica keeps up");
    let load = Load::at(origin.base_url(), |load| {
        load.phase("both up", || {}, S);
        load.phase("replica frozen", || replica.freeze(), 3 * S);
        load.phase("replica thawed", || replica.thaw(), S);
    });
    println!("{load}");
    for phase in load.table() {
        assert_eq!(
            (phase.reads.failed, phase.writes.failed),
            (0, 0),
            "{phase:?}"
        );
        assert!(phase.reads.max < 2 * S, "{phase:?}");
    }
    assert_eq!(load.not_shown(), 0);
}

/// What a machine that hangs and a network that loses everything look like.
#[test]
fn a_primary_that_freezes_holds_readers_up_for_a_moment() {
    let primary = start_server(&[]);
    let replica = primary.start_replica(REPLICA_SETTINGS).unwrap();
    let origin = origin_on(&primary, Some(&replica));
    wait_for_line(&origin, "the replica keeps up");
    let mut unsent = Vec::new();
    let load = Load::at(origin.base_url(), |load| {
        load.phase("both up", || {}, S);
        load.phase("primary frozen, first 2 s", || primary.freeze(), 2 * S);
        unsent = load.lost(|sql| replica.query(sql).unwrap());
        load.phase("primary frozen", || {}, 3 * S);
        load.phase("primary thawed", || primary.thaw(), 2 * S);
    });
    println!("{load}");
    // Only a read that must show what the replica was not sent any more waits for the primary.
    println!("acknowledged and not sent: {unsent:?}");
    for phase in load.table() {
        assert!(phase.reads.all > 100, "{phase:?}");
        if unsent.is_empty() {
            assert_eq!(phase.reads.failed, 0, "{phase:?}");
            assert!(phase.reads.max < 3 * S, "{phase:?}");
        } else {
            assert!(phase.reads.failed * 10 < phase.reads.all, "{phase:?}");
        }
    }
    assert_eq!(load.not_shown(), 0);
    let lost = load.lost(|sql| primary.query(sql).unwrap());
    assert!(lost.is_empty(), "{lost:?}");
}
