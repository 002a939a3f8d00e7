//! Reads from a real streaming replica: while it keeps up, and in everything that can be wrong with it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use origin::store::postgres::replica::{Settings, State};
use origin::store::postgres::{Database, Store};
use origin::store::{Created, NewPost};
use serde_json::Value;
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use testbed::Postgres;
use testbed::postgres::{PASSWORD, Stop};
use tokio::time::{sleep, timeout};

use crate::postgres::{POSTS, start_server};
use crate::support::PATIENCE;

/// As it is by default.
const LAG_BOUND: Duration = Duration::from_millis(500);
/// So much that a replica which stands still keeps up for the whole test.
const GENEROUS: Duration = Duration::from_secs(60);

/// What the replica has to be told to look for a primary that is back sooner than after 5 s.
pub const REPLICA_SETTINGS: &[(&str, &str)] = &[("wal_retrieve_retry_interval", "200ms")];

struct Pair {
    primary: Postgres,
    replica: Postgres,
}

impl Pair {
    fn start() -> Pair {
        Pair::start_with(&[])
    }

    fn start_with(settings: &[(&str, &str)]) -> Pair {
        let primary = start_server(settings);
        let replica = primary
            .start_replica(&[REPLICA_SETTINGS, settings].concat())
            .unwrap();
        Pair { primary, replica }
    }

    async fn open(&self, lag_bound: Duration) -> Opened {
        let opened = Opened::of(&self.primary, &self.replica, lag_bound).await;
        opened.stands(State::KeepsUp).await;
        // Each kind of read makes its connection when somebody asks.
        opened.read_on_replica("post_on_replica").await;
        opened.read_on_replica("feed_on_replica").await;
        opened
    }
}

struct Opened {
    database: Database,
    store: Arc<Store>,
}

impl Opened {
    async fn of(primary: &Postgres, replica: &Postgres, lag_bound: Duration) -> Opened {
        Opened::at(&primary.url(), &replica.url(), lag_bound).await
    }

    async fn at(primary: &str, replica: &str, lag_bound: Duration) -> Opened {
        let settings = Settings {
            options: replica.parse().unwrap(),
            lag_bound,
            alone_limit: Duration::from_secs(60),
        };
        let database = Database::open(primary.parse().unwrap())
            .await
            .unwrap()
            .with_replica(settings);
        let store = Arc::new(database.worker());
        Opened { database, store }
    }

    fn state(&self) -> Option<State> {
        self.database.replica_stats().unwrap().state()
    }

    async fn stands(&self, state: State) {
        let wait = async {
            while self.state() != Some(state) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        if timeout(PATIENCE, wait).await.is_err() {
            panic!("it stands as {:?}, never as {state:?}", self.state());
        }
    }

    /// Calls that the replica has answered.
    fn answered(&self, kind: &str) -> u64 {
        let stats = self.database.stats();
        let found = stats.iter().find(|stats| stats.call() == kind);
        found.unwrap().counts().calls
    }

    async fn read_on_replica(&self, kind: &str) {
        let before = self.answered(kind);
        let read = async {
            while self.answered(kind) == before {
                self.post(1).await;
                self.feed().await;
            }
        };
        timeout(PATIENCE, read).await.expect("it is not read from");
    }

    async fn post(&self, id: i64) -> Value {
        let body = self.store.post(id).await.unwrap();
        serde_json::from_slice::<Value>(&body).unwrap()["post"].take()
    }

    async fn feed(&self) -> Vec<Value> {
        let body = self.store.feed().await.unwrap();
        match serde_json::from_slice::<Value>(&body).unwrap()["posts"].take() {
            Value::Array(posts) => posts,
            other => panic!("no posts but {other}"),
        }
    }

    fn on_another_worker(&self) -> Store {
        self.database.worker()
    }
}

async fn create(store: &Store, body: &str) -> Created {
    let body = body.to_owned();
    store.create(NewPost { user_id: 1, body }).await.unwrap()
}

#[tokio::test]
async fn a_replica_that_keeps_up_answers_all_reads() {
    let pair = Pair::start_with(&[("shared_preload_libraries", "pg_stat_statements")]);
    (pair.primary)
        .query("CREATE EXTENSION pg_stat_statements")
        .unwrap();
    let opened = pair.open(LAG_BOUND).await;
    for server in [&pair.primary, &pair.replica] {
        server.query("SELECT pg_stat_statements_reset()").unwrap();
    }
    for id in 1..=50 {
        assert_eq!(opened.post(id).await["id"], id);
        assert_eq!(opened.feed().await[0]["id"], POSTS);
    }
    // By the servers' own count.
    let reads = "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements \
         WHERE query LIKE 'SELECT id, created_at%'";
    let count = |server: &Postgres| server.query(reads).unwrap().parse::<u32>().unwrap();
    let (primary, replica) = (count(&pair.primary), count(&pair.replica));
    println!("{replica} reads on the replica, {primary} on the primary");
    // A machine that stands still for a quarter of a second sends a read on to the primary.
    assert!(replica >= 95 && primary <= 5);
}

#[tokio::test]
async fn a_role_without_special_rights_is_enough() {
    let pair = Pair::start();
    let grants = "CREATE USER app PASSWORD 'app'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO app; \
         GRANT INSERT, UPDATE ON posts TO app; GRANT INSERT ON likes TO app; \
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO app";
    pair.primary.query(grants).unwrap();
    pair.primary.wait_for_replay(&pair.replica).unwrap();
    let as_app =
        |server: &Postgres| (server.url()).replace(&format!("postgres:{PASSWORD}@"), "app:app@");
    let (primary, replica) = (as_app(&pair.primary), as_app(&pair.replica));
    let opened = Opened::at(&primary, &replica, LAG_BOUND).await;
    opened.stands(State::KeepsUp).await;
    opened.read_on_replica("feed_on_replica").await;
    let created = create(&opened.store, "by app").await;
    assert_eq!(opened.post(created.id).await["body"], "by app");
}

#[tokio::test]
async fn an_idle_primarys_replica_keeps_up_for_as_long_as_that_lasts() {
    let pair = Pair::start();
    let opened = pair.open(LAG_BOUND).await;
    sleep(LAG_BOUND * 4).await;
    assert_eq!(opened.state(), Some(State::KeepsUp));
    opened.read_on_replica("feed_on_replica").await;
}

/// Somebody else writes, and replay stands still: no read that is sent later than the bound after
/// the write misses it.
#[tokio::test]
async fn no_answer_is_older_than_the_bound_and_a_replica_that_caught_up_is_read_from_again() {
    let pair = Pair::start();
    let opened = pair.open(LAG_BOUND).await;
    pair.replica.pause_replay().unwrap();
    for turn in 1..=3 {
        let write = format!("UPDATE posts SET body = 'turn {turn}' WHERE id = {POSTS}");
        pair.primary.query(&write).unwrap();
        let written = Instant::now();
        while written.elapsed() < LAG_BOUND * 2 {
            let may_be_old = written.elapsed() < LAG_BOUND;
            let (post, feed) = (opened.post(POSTS).await, opened.feed().await);
            let is_new = |post: &Value| post["body"] == format!("turn {turn}");
            assert!(may_be_old || (is_new(&post) && is_new(&feed[0])));
            sleep(Duration::from_millis(3)).await;
        }
        opened.stands(State::Lags).await;
    }
    let on_replica = opened.answered("post_on_replica");
    opened.post(1).await;
    assert_eq!(opened.answered("post_on_replica"), on_replica);

    pair.replica.resume_replay().unwrap();
    opened.stands(State::KeepsUp).await;
    opened.read_on_replica("post_on_replica").await;
    assert_eq!(opened.post(POSTS).await["body"], "turn 3");
}

/// By any worker of this origin, and though the replica counts as keeping up all the time.
#[tokio::test]
async fn what_was_written_here_shows_at_once_also_while_replay_stands_still() {
    let pair = Pair::start();
    let opened = pair.open(GENEROUS).await;
    let writer = opened.on_another_worker();
    pair.replica.pause_replay().unwrap();
    let created = create(&writer, "new").await;
    assert_eq!(opened.post(created.id).await["body"], "new");
    assert_eq!(opened.feed().await[0]["id"], created.id);
    assert_eq!(writer.like(2, 7).await, Ok(false));
    assert_eq!(opened.post(7).await["like_count"], 1);
    assert_eq!(opened.state(), Some(State::KeepsUp));

    // What nobody wrote to is read from the replica meanwhile.
    let on_replica = opened.answered("post_on_replica");
    assert_eq!(opened.post(8).await["id"], 8);
    assert_eq!(opened.answered("post_on_replica"), on_replica + 1);

    pair.replica.resume_replay().unwrap();
    opened.read_on_replica("feed_on_replica").await;
    assert_eq!(opened.feed().await[0]["id"], created.id);
    assert_eq!(opened.post(7).await["like_count"], 1);
}

#[tokio::test]
async fn a_write_that_was_replayed_is_read_from_the_replica_without_waiting_for_the_monitor() {
    let pair = Pair::start();
    let opened = pair.open(GENEROUS).await;
    let mut on_replica = 0;
    for turn in 0..50 {
        let created = create(&opened.store, &format!("turn {turn}")).await;
        pair.primary.wait_for_replay(&pair.replica).unwrap();
        let before = opened.answered("post_on_replica");
        assert_eq!(opened.post(created.id).await["id"], created.id);
        on_replica += opened.answered("post_on_replica") - before;
    }
    println!("{on_replica} of 50 on the replica");
    assert!(on_replica >= 45);
}

/// Another origin may have made it.
#[tokio::test]
async fn a_post_that_the_replica_does_not_have_is_looked_for_on_the_primary() {
    let pair = Pair::start();
    let opened = pair.open(GENEROUS).await;
    pair.replica.pause_replay().unwrap();
    let insert = "INSERT INTO posts (user_id, author, body, created_at) \
         SELECT id, username, 'by another', now() FROM users LIMIT 1 RETURNING id";
    let id = pair.primary.query(insert).unwrap().parse().unwrap();
    assert_eq!(opened.post(id).await["body"], "by another");
    let missing = opened.store.post(id + 1).await;
    assert_eq!(missing, Err(shared::ApiError::PostNotFound));
}

#[tokio::test]
async fn a_replica_that_freezes_holds_nobody_up_for_long() {
    let pair = Pair::start();
    let opened = pair.open(LAG_BOUND).await;
    pair.replica.freeze();
    let (frozen, mut longest) = (Instant::now(), Duration::ZERO);
    while frozen.elapsed() < Duration::from_secs(3) {
        let asked = Instant::now();
        opened.feed().await;
        opened.post(1).await;
        longest = longest.max(asked.elapsed());
        sleep(Duration::from_millis(5)).await;
    }
    println!("the longest of a feed and a post in a row: {longest:?}");
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    opened.stands(State::Away).await;
    pair.replica.thaw();
    opened.stands(State::KeepsUp).await;
    opened.read_on_replica("feed_on_replica").await;
}

/// A lock that was replayed is in the readers' way, as it is after an `ALTER TABLE`.
#[tokio::test]
async fn a_read_that_the_replica_cancels_is_answered_by_the_primary() {
    let pair = Pair::start();
    let opened = pair.open(GENEROUS).await;
    let primary = pair.primary.url();
    let mut locks = PgConnection::connect(&primary).await.unwrap();
    let lock = "BEGIN; LOCK TABLE posts IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(lock).execute(&mut locks).await.unwrap();
    pair.primary.query("SELECT pg_switch_wal()").unwrap();
    let has_it = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted \
         AND relation = 'posts'::regclass";
    testbed::wait_until("the lock to be replayed", PATIENCE, || {
        Ok(pair.replica.query(has_it)? == "1")
    })
    .unwrap();
    pair.replica.pause_replay().unwrap();
    sqlx::raw_sql("ROLLBACK").execute(&mut locks).await.unwrap();

    let passed_on = || opened.database.replica_stats().unwrap().passed_on_count();
    let (before, asked) = (passed_on(), Instant::now());
    assert_eq!(opened.post(1).await["id"], 1);
    assert_eq!(opened.feed().await[0]["id"], POSTS);
    assert!(asked.elapsed() < Duration::from_secs(2));
    assert_eq!(passed_on() - before, 2);
    pair.replica.resume_replay().unwrap();
    opened.read_on_replica("post_on_replica").await;
}

/// The server itself ends the read (SQLSTATE 40001): here reads are slow, and replay waits for nobody.
#[tokio::test]
async fn a_read_in_the_way_of_replay_is_answered_by_the_primary() {
    let pair = Pair::start_with(&[("max_standby_streaming_delay", "0")]);
    let opened = pair.open(GENEROUS).await;
    let slow = "ALTER TABLE posts RENAME TO stored; \
         CREATE VIEW posts AS SELECT * FROM stored WHERE pg_sleep(0.1) IS NOT NULL";
    pair.primary.query(slow).unwrap();
    pair.primary.wait_for_replay(&pair.replica).unwrap();
    let mut locks = PgConnection::connect(&pair.primary.url()).await.unwrap();
    for _ in 0..5 {
        let (post, ()) = tokio::join!(opened.post(1), async {
            sleep(Duration::from_millis(40)).await;
            let lock = "BEGIN; LOCK TABLE stored IN ACCESS EXCLUSIVE MODE; COMMIT";
            sqlx::raw_sql(lock).execute(&mut locks).await.unwrap();
        });
        assert_eq!(post["id"], 1);
    }
    let conflicts = "SELECT sum(confl_lock) >= 1 FROM pg_stat_database_conflicts";
    testbed::wait_until("a conflict to be counted", PATIENCE, || {
        Ok(pair.replica.query(conflicts)? == "t")
    })
    .unwrap();
}

#[tokio::test]
async fn what_is_no_replica_of_this_primary_is_not_read_from() {
    let pair = Pair::start();
    // It has our tables, and other rows.
    let stranger = start_server(&[]);
    let strangers_replica = stranger.start_replica(&[]).unwrap();
    stranger.query("UPDATE posts SET body = 'wrong'").unwrap();
    for wrong in [&pair.primary, &stranger, &strangers_replica] {
        let opened = Opened::of(&pair.primary, wrong, LAG_BOUND).await;
        opened.stands(State::Refused).await;
        assert_eq!(opened.post(1).await["body"], "post 1");
        assert_eq!(opened.answered("post_on_replica"), 0);
    }

    // Promoted by accident.
    let opened = pair.open(LAG_BOUND).await;
    pair.replica.promote().unwrap();
    opened.stands(State::Refused).await;
    pair.replica
        .query("UPDATE posts SET body = 'wrong'")
        .unwrap();
    for id in 1..=20 {
        assert_eq!(opened.post(id).await["body"], format!("post {id}"));
    }
}

#[tokio::test]
async fn a_replica_that_is_not_there_at_the_start_is_found_later() {
    let mut pair = Pair::start();
    pair.replica.stop(Stop::Fast).unwrap();
    let opened = Opened::of(&pair.primary, &pair.replica, LAG_BOUND).await;
    opened.stands(State::Away).await;
    assert_eq!(opened.post(1).await["id"], 1);
    pair.replica.start_again().unwrap();
    opened.stands(State::KeepsUp).await;
    opened.read_on_replica("post_on_replica").await;
}

#[tokio::test]
async fn reads_go_on_from_a_replica_that_kept_up_when_the_primary_went() {
    let mut pair = Pair::start();
    let opened = pair.open(LAG_BOUND).await;
    let created = create(&opened.store, "the last").await;
    pair.primary.wait_for_replay(&pair.replica).unwrap();
    pair.primary.stop(Stop::Kill).unwrap();
    // At once, and for longer than the bound.
    let killed = Instant::now();
    while killed.elapsed() < LAG_BOUND * 4 {
        assert_eq!(opened.feed().await[0]["id"], created.id);
        assert_eq!(opened.post(created.id).await["body"], "the last");
        sleep(Duration::from_millis(5)).await;
    }
    opened.stands(State::Alone).await;
    let refused = opened.store.like(1, created.id).await;
    assert_eq!(refused, Err(shared::ApiError::DatabaseUnavailable));

    // A write that succeeds is proof that the primary is back.
    pair.primary.start_again().unwrap();
    let back = async {
        while opened.store.like(1, created.id).await.is_err() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, back).await.unwrap();
    assert_eq!(opened.post(created.id).await["like_count"], 1);
    opened.stands(State::KeepsUp).await;
}

#[tokio::test]
async fn a_replica_that_lagged_when_the_primary_went_is_not_read_from() {
    let mut pair = Pair::start();
    let opened = pair.open(LAG_BOUND).await;
    pair.replica.pause_replay().unwrap();
    pair.primary.query("UPDATE posts SET body = 'new'").unwrap();
    opened.stands(State::Lags).await;
    pair.primary.stop(Stop::Kill).unwrap();
    for _ in 0..50 {
        let refused = opened.store.post(1).await;
        assert_eq!(refused, Err(shared::ApiError::DatabaseUnavailable));
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(opened.state(), Some(State::Lags));
}

/// It must not be acknowledged, and is not taken back either: it waits inside the server.
#[tokio::test]
async fn without_its_synchronous_replica_no_write_is_acknowledged_and_reads_go_on() {
    let mut pair = Pair::start();
    let opened = pair.open(LAG_BOUND).await;
    let wait = "ALTER SYSTEM SET synchronous_standby_names = '*'";
    pair.primary.query(wait).unwrap();
    pair.primary.query("SELECT pg_reload_conf()").unwrap();
    testbed::wait_until("a synchronous replica", PATIENCE, || {
        let sync = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        Ok(pair.primary.query(sync)? == "1")
    })
    .unwrap();
    assert_eq!(opened.store.like(1, 1).await, Ok(false));
    pair.replica.stop(Stop::Kill).unwrap();
    let asked = Instant::now();
    let (write, ()) = tokio::join!(opened.store.like(2, 1), async {
        while asked.elapsed() < Duration::from_secs(4) {
            opened.feed().await;
            opened.post(2).await;
            sleep(Duration::from_millis(10)).await;
        }
    });
    println!("refused after {:.1?}", asked.elapsed());
    assert_eq!(write, Err(shared::ApiError::DatabaseUnavailable));
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    assert_eq!(pair.primary.query(waiting).unwrap(), "1");
    pair.replica.start_again().unwrap();
    let back = async {
        while opened.store.like(3, 1).await.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, back).await.unwrap();
    assert_eq!(pair.primary.query(waiting).unwrap(), "0");
}
