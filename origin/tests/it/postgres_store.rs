//! The PostgreSQL store by itself, against a real server.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use origin::store::postgres::{Database, Store};
use origin::store::stats::Counts;
use origin::store::{Created, NewPost};
use serde_json::Value;
use shared::ApiError;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, raw_sql};
use testbed::Postgres;
use testbed::postgres::Stop;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::postgres::{POSTS, USERS, likes_that_do_not_add_up, start_server};

async fn open(server: &Postgres) -> (Database, Arc<Store>) {
    let database = Database::open(server.url().parse().unwrap()).await.unwrap();
    let store = Arc::new(database.worker());
    (database, store)
}

/// Asks everything at the same time; the answers in the order of the questions.
async fn all<Q, A, F>(questions: impl IntoIterator<Item = Q>, ask: impl Fn(Q) -> F) -> Vec<A>
where
    F: Future<Output = A> + Send + 'static,
    A: Send + 'static,
{
    let mut asking = JoinSet::new();
    for (place, question) in questions.into_iter().enumerate() {
        let answer = ask(question);
        asking.spawn(async move { (place, answer.await) });
    }
    let mut answers = asking.join_all().await;
    answers.sort_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn new_post(user_id: i64, body: impl Into<String>) -> NewPost {
    NewPost {
        user_id,
        body: body.into(),
    }
}

fn counts(database: &Database, kind: &str) -> Counts {
    let stats = database.stats();
    let found = stats.iter().find(|stats| stats.call() == kind);
    found.unwrap().counts()
}

/// How many calls travelled in how many statements.
fn travelled(database: &Database, kind: &str) -> (u64, u64) {
    let counts = counts(database, kind);
    (counts.calls, counts.groups)
}

async fn post_of(store: &Store, id: i64) -> Value {
    let body = store.post(id).await.unwrap();
    let mut body: Value = serde_json::from_slice(&body).unwrap();
    body["post"].take()
}

async fn feed_of(store: &Store) -> Vec<Value> {
    let body = store.feed().await.unwrap();
    let mut body: Value = serde_json::from_slice(&body).unwrap();
    match body["posts"].take() {
        Value::Array(posts) => posts,
        other => panic!("no posts but {other}"),
    }
}

async fn feed_ids(store: &Store) -> Vec<i64> {
    let feed = feed_of(store).await;
    feed.iter()
        .map(|post| post["id"].as_i64().unwrap())
        .collect()
}

#[tokio::test]
async fn posts_and_feed_are_rendered_as_the_contract_says() {
    let server = start_server(&[]);
    let (_, store) = open(&server).await;
    assert_eq!(
        store.post(7).await.unwrap(),
        r#"{"post":{"id":7,"body":"post 7","created_at":"2025-01-01T00:07:00.000Z","author":"user_8","like_count":0}}"#
    );
    assert_eq!(store.post(POSTS + 1).await, Err(ApiError::PostNotFound));
    assert_eq!(store.post(i64::MAX).await, Err(ApiError::PostNotFound));
    let newest: Vec<i64> = (POSTS - 19..=POSTS).rev().collect();
    assert_eq!(feed_ids(&store).await, newest);
    assert_eq!(store.health().await, Ok(()));

    server.query("TRUNCATE posts, likes").unwrap();
    assert_eq!(store.feed().await.unwrap(), r#"{"posts":[]}"#);
}

#[tokio::test]
async fn concurrent_readers_travel_in_one_query_and_a_lone_one_in_its_own() {
    let server = start_server(&[("shared_preload_libraries", "pg_stat_statements")]);
    server.query("CREATE EXTENSION pg_stat_statements").unwrap();
    let (database, store) = open(&server).await;
    store.post(1).await.unwrap();
    store.feed().await.unwrap();
    assert_eq!(travelled(&database, "post"), (1, 1));
    assert_eq!(travelled(&database, "feed"), (1, 1));
    server.query("SELECT pg_stat_statements_reset()").unwrap();

    // Some ask for the same post.
    let asked: Vec<i64> = (0..64).map(|turn| turn % 50 + 1).collect();
    let answered = all(asked.clone(), |id| {
        let store = store.clone();
        async move { post_of(&store, id).await["id"].as_i64().unwrap() }
    });
    assert_eq!(answered.await, asked);
    let feeds = all(0..64, |_| {
        let store = store.clone();
        async move { store.feed().await.unwrap() }
    });
    assert!(
        feeds
            .await
            .iter()
            .all(|feed| feed.starts_with(b"{\"posts\":[{\"id\":100,"))
    );

    // By the server's own count: 64 callers each, one statement each.
    let statements = "SELECT query LIKE '%LIMIT%', calls FROM pg_stat_statements \
         WHERE query LIKE 'SELECT id, created_at%' ORDER BY 1";
    assert_eq!(server.query(statements).unwrap(), "f|1\nt|1");
    assert_eq!(travelled(&database, "post"), (65, 2));
    assert_eq!(travelled(&database, "feed"), (65, 2));
}

#[tokio::test]
async fn what_was_written_shows_in_every_read_that_follows_the_reply() {
    let server = start_server(&[]);
    let (_, store) = open(&server).await;
    // Others keep asking, so that there is always an older query to share by mistake.
    let mut others = JoinSet::new();
    for id in 1..=16 {
        let store = store.clone();
        others.spawn(async move {
            loop {
                store.feed().await.unwrap();
                store.post(id).await.unwrap();
            }
        });
    }
    for turn in 0..200 {
        let user_id = turn % USERS + 1;
        let body = format!("turn {turn}");
        let created = store.create(new_post(user_id, body)).await.unwrap();
        let top = feed_of(&store).await.swap_remove(0);
        assert_eq!(top["id"], created.id);
        assert_eq!(top["created_at"], created.created_at);
        assert_eq!(top["author"], format!("user_{user_id}"));
        assert_eq!(store.like(user_id, created.id).await, Ok(false));
        assert_eq!(post_of(&store, created.id).await["like_count"], 1);
    }
    others.shutdown().await;
}

#[tokio::test]
async fn ids_rise_in_the_order_of_creates_also_within_a_group() {
    let server = start_server(&[]);
    let (database, store) = open(&server).await;
    let created: Vec<Created> = all(0..50, |turn| {
        let store = store.clone();
        async move {
            let author = turn % USERS + 1;
            store
                .create(new_post(author, format!("post {turn}")))
                .await
                .unwrap()
        }
    })
    .await;
    assert_eq!(travelled(&database, "create"), (50, 1));
    assert!(created.is_sorted_by(|a, b| a.id < b.id && a.created_at <= b.created_at));
    let newest: Vec<i64> = created.iter().rev().take(20).map(|post| post.id).collect();
    assert_eq!(feed_ids(&store).await, newest);
    for (turn, created) in created.iter().enumerate() {
        let post = post_of(&store, created.id).await;
        assert_eq!(post["body"], format!("post {turn}"));
        assert_eq!(post["created_at"], created.created_at);
    }
}

#[tokio::test]
async fn a_clock_that_was_ahead_puts_no_new_post_below_an_older_one() {
    let server = start_server(&[]);
    server
        .query("UPDATE posts SET created_at = now() + interval '1 hour' WHERE id = 5")
        .unwrap();
    let (_, store) = open(&server).await;
    let first = store.create(new_post(1, "first")).await.unwrap();
    let second = store.create(new_post(1, "second")).await.unwrap();
    assert_eq!(feed_ids(&store).await[..3], [second.id, first.id, 5]);
}

#[tokio::test]
async fn a_bad_create_does_not_sink_its_neighbours() {
    let server = start_server(&[]);
    let (database, store) = open(&server).await;
    let create = |(user_id, body): (i64, String)| {
        let store = store.clone();
        async move {
            let created = store.create(new_post(user_id, body)).await?;
            let post = post_of(&store, created.id).await;
            Ok((post["author"].clone(), post["body"].clone()))
        }
    };
    let shown = |user_id: i64| {
        Ok((
            format!("user_{user_id}").into(),
            format!("by {user_id}").into(),
        ))
    };

    let authors = [9_999, 1, 2, 9_999, 2, 8_888, 3];
    let outcomes = all(
        authors.map(|user_id| (user_id, format!("by {user_id}"))),
        create,
    )
    .await;
    for (user_id, outcome) in authors.into_iter().zip(outcomes) {
        match user_id {
            1..=USERS => assert_eq!(outcome, shown(user_id)),
            _ => assert_eq!(outcome, Err(ApiError::UnknownUser)),
        }
    }
    assert_eq!(travelled(&database, "create"), (7, 1));

    // One that the table's own check refuses: it got past whoever was to validate it.
    let bodies = [1, 2, 3].map(|user_id| match user_id {
        2 => (2, "x".repeat(501)),
        _ => (user_id, format!("by {user_id}")),
    });
    let outcomes = all(bodies, create).await;
    assert_eq!(outcomes, [shown(1), Err(ApiError::Internal), shown(3)]);
    assert_eq!(counts(&database, "create").connections_made, 1);
}

#[tokio::test]
async fn any_text_but_nul_comes_back_as_it_was() {
    let server = start_server(&[]);
    let (database, store) = open(&server).await;
    let texts = [
        "\"quotes\", back\\slash, {braces}, NULL".to_owned(),
        "line\nfeed\u{b}\u{1}\u{7f}".to_owned(),
        "é漢😀".to_owned(),
        "😀".repeat(500),
    ];
    let bodies = all(texts.clone(), |text| {
        let store = store.clone();
        async move {
            let created = store.create(new_post(1, text)).await.unwrap();
            post_of(&store, created.id).await["body"].clone()
        }
    });
    assert_eq!(bodies.await, texts);

    let sent = counts(&database, "create").calls;
    for text in ["\0", "a\0b"] {
        let refused = store.create(new_post(1, text)).await;
        assert_eq!(refused, Err(ApiError::BodyContainsNul));
    }
    assert_eq!(
        counts(&database, "create").calls,
        sent,
        "it never reaches the database"
    );
}

#[tokio::test]
async fn sixteen_identical_likes_count_once() {
    let server = start_server(&[]);
    // Two workers, so that some meet in a group and others in the table.
    let (database, one) = open(&server).await;
    let two = Arc::new(database.worker());
    for post_id in 1..=20 {
        let outcomes = all(0..16, |turn| {
            let store = if turn % 2 == 0 {
                one.clone()
            } else {
                two.clone()
            };
            async move { store.like(3, post_id).await.unwrap() }
        })
        .await;
        let first_times = outcomes.iter().filter(|already| !**already).count();
        assert_eq!(first_times, 1, "post {post_id}");
        assert_eq!(post_of(&one, post_id).await["like_count"], 1);
    }
    assert_eq!(one.like(3, 1).await, Ok(true));
    assert_eq!(likes_that_do_not_add_up(&server), "");
}

#[tokio::test]
async fn a_bad_like_does_not_sink_its_neighbours() {
    let server = start_server(&[]);
    let (database, store) = open(&server).await;
    const NOBODY: i64 = 9_999;
    const NOTHING: i64 = 8_888;
    let likes = [
        (1, 1),
        (NOBODY, 1),
        (2, NOTHING),
        (2, 1),
        (1, 1),
        (NOBODY, NOTHING),
        (2, NOTHING),
    ];
    let outcomes = all(likes, |(user_id, post_id)| {
        let store = store.clone();
        async move { store.like(user_id, post_id).await }
    })
    .await;
    let mut liked = BTreeSet::new();
    for (like, outcome) in likes.into_iter().zip(outcomes) {
        match like {
            (NOBODY, _) => assert_eq!(outcome, Err(ApiError::UnknownUser)),
            (_, NOTHING) => assert_eq!(outcome, Err(ApiError::PostNotFound)),
            _ if outcome == Ok(false) => assert!(liked.insert(like), "{like:?}: twice new"),
            _ => assert_eq!(outcome, Ok(true), "{like:?}"),
        }
    }
    assert_eq!(liked, BTreeSet::from([(1, 1), (2, 1)]));
    assert_eq!(travelled(&database, "like"), (7, 1));
    assert_eq!(likes_that_do_not_add_up(&server), "");
}

#[tokio::test]
async fn groups_of_several_workers_never_block_each_other_for_ever() {
    let server = start_server(&[("deadlock_timeout", "100ms")]);
    let (database, store) = open(&server).await;
    let stores: Vec<Arc<Store>> = (0..3).map(|_| Arc::new(database.worker())).collect();
    // Everyone likes the same posts, each worker's callers in an order of their own.
    let liked_posts = 20;
    let likes = (0..3 * USERS * liked_posts).map(|turn| {
        let (worker, user_id, place) = (turn % 3, turn / 3 % USERS + 1, turn / 3 / USERS);
        let post_id = if worker == 1 {
            liked_posts - place
        } else {
            place + 1
        };
        (worker as usize, user_id, post_id)
    });
    let outcomes = all(likes, |(worker, user_id, post_id)| {
        let store = stores[worker].clone();
        async move { store.like(user_id, post_id).await.unwrap() }
    })
    .await;
    let new = outcomes.iter().filter(|already| !**already).count();
    assert_eq!(new as i64, USERS * liked_posts);
    assert_eq!(likes_that_do_not_add_up(&server), "");
    assert_eq!(post_of(&store, 1).await["like_count"], USERS);
    // The order in which rows are locked keeps deadlocks away, not trying again.
    assert_eq!(counts(&database, "like").retries, 0);
}

/// What one writer of the next test was promised.
#[derive(Default)]
struct Written {
    /// Posts whose create was answered, and whether their like was.
    acknowledged: Vec<(i64, bool)>,
    slowest_refusal: Duration,
}

/// Creates and likes until the server has been away and some writes have succeeded since.
async fn write_through_an_outage(store: Arc<Store>, user_id: i64) -> Written {
    let mut written = Written::default();
    let mut successes_since_refusal = None;
    while successes_since_refusal < Some(20) {
        let asked = Instant::now();
        match store.create(new_post(user_id, "kept")).await {
            Ok(created) => {
                let liked = store.like(user_id, created.id).await == Ok(false);
                written.acknowledged.push((created.id, liked));
                successes_since_refusal = successes_since_refusal.map(|count| count + 1);
            }
            Err(refusal) => {
                assert_eq!(refusal, ApiError::DatabaseUnavailable);
                written.slowest_refusal = written.slowest_refusal.max(asked.elapsed());
                successes_since_refusal = Some(0);
                sleep(Duration::from_millis(5)).await;
            }
        }
    }
    written
}

#[tokio::test]
async fn a_server_that_goes_and_comes_back_loses_no_acknowledged_write() {
    let mut server = start_server(&[]);
    let (_, store) = open(&server).await;
    for how in [Stop::Fast, Stop::Kill, Stop::Immediate] {
        let mut writers = JoinSet::new();
        for user_id in 1..=8 {
            writers.spawn(write_through_an_outage(store.clone(), user_id));
        }
        sleep(Duration::from_millis(300)).await;
        let stopping = tokio::task::spawn_blocking(move || {
            server.stop(how).unwrap();
            server
        });
        server = stopping.await.unwrap();
        sleep(Duration::from_millis(300)).await;
        let asked = Instant::now();
        assert_eq!(store.health().await, Err(ApiError::DatabaseUnavailable));
        assert_eq!(store.feed().await, Err(ApiError::DatabaseUnavailable));
        assert!(
            asked.elapsed() < Duration::from_millis(200),
            "{:?}",
            asked.elapsed()
        );
        let starting = tokio::task::spawn_blocking(move || {
            server.start_again().unwrap();
            server
        });
        server = starting.await.unwrap();

        for written in writers.join_all().await {
            let slowest = written.slowest_refusal;
            assert!(
                slowest < Duration::from_secs(1),
                "{how:?}: refused after {slowest:?}"
            );
            let count = written.acknowledged.len();
            assert!(
                count > 20,
                "{how:?}: {count} writes are too few to lose any"
            );
            for (id, liked) in written.acknowledged {
                let like_count = post_of(&store, id).await["like_count"].as_i64().unwrap();
                assert!(
                    like_count >= i64::from(liked),
                    "{how:?}: post {id} lost its like"
                );
            }
        }
        assert_eq!(likes_that_do_not_add_up(&server), "");
    }
}

#[tokio::test]
async fn a_restart_while_nobody_asks_is_noticed_by_nobody() {
    let mut server = start_server(&[]);
    let (database, store) = open(&server).await;
    assert_eq!(store.like(1, 1).await, Ok(false));
    let _ = tokio::join!(store.post(1), store.feed(), store.health());
    store.create(new_post(1, "before")).await.unwrap();
    server.restart(Stop::Fast).unwrap();
    sleep(Duration::from_millis(1_100)).await;

    assert_eq!(store.like(1, 1).await, Ok(true));
    assert!(store.post(1).await.is_ok());
    assert!(store.feed().await.is_ok());
    assert_eq!(store.health().await, Ok(()));
    assert!(store.create(new_post(1, "after")).await.is_ok());
    for stats in database.stats() {
        let counts = stats.counts();
        let connections = (counts.connections, counts.connections_made);
        assert_eq!(connections, (1, 2), "{}", stats.call());
    }
}

#[tokio::test]
async fn a_connection_that_is_ended_costs_no_reader_an_answer() {
    let server = start_server(&[]);
    let (database, store) = open(&server).await;
    for turn in 1..=5 {
        let _ = tokio::join!(store.post(1), store.feed(), store.health());
        let end_all = "SELECT count(pg_terminate_backend(pid, 1000)) FROM pg_stat_activity \
             WHERE application_name = 'origin'";
        assert_eq!(server.query(end_all).unwrap(), "5");
        let reads = tokio::join!(store.post(1), store.feed(), store.health());
        assert!(
            reads.0.is_ok() && reads.1.is_ok() && reads.2.is_ok(),
            "{reads:?}"
        );
        // A write might have been done: its caller is told that nobody knows.
        let liked = store.like(turn, turn).await;
        assert_eq!(liked, Err(ApiError::DatabaseUnavailable));
        let created = store.create(new_post(1, "again")).await;
        assert_eq!(created, Err(ApiError::DatabaseUnavailable));
        assert!(store.like(turn, turn).await.is_ok());
        assert!(store.create(new_post(1, "again")).await.is_ok());
    }
    assert_eq!(counts(&database, "feed").connections, 1);
}

#[tokio::test]
async fn a_statement_that_hangs_is_given_up_while_health_answers_and_full_queues_refuse() {
    let server = start_server(&[]);
    let (_, store) = open(&server).await;
    store.like(1, 1).await.unwrap();
    let mut locker = PgConnection::connect(&server.url()).await.unwrap();
    let lock = raw_sql("BEGIN; LOCK TABLE likes").execute(&mut locker);
    lock.await.unwrap();

    let asked = Instant::now();
    let outcomes = all(0..6_000, |turn| {
        let store = store.clone();
        async move { store.like(turn % USERS + 1, turn % POSTS + 1).await }
    });
    let meanwhile = async {
        sleep(Duration::from_millis(500)).await;
        let asked = Instant::now();
        assert_eq!(store.health().await, Ok(()));
        assert!(store.feed().await.is_ok());
        assert!(asked.elapsed() < Duration::from_millis(500));
        sleep(Duration::from_millis(5_500)).await;
        let unlock = raw_sql("ROLLBACK").execute(&mut locker);
        unlock.await.unwrap();
    };
    let (outcomes, ()) = tokio::join!(outcomes, meanwhile);
    assert!(
        asked.elapsed() < Duration::from_secs(15),
        "{:?}",
        asked.elapsed()
    );
    let count = |wanted: Result<(), ApiError>| {
        let same = outcomes
            .iter()
            .filter(|outcome| outcome.map(|_| ()) == wanted);
        same.count()
    };
    let overloaded = count(Err(ApiError::Overloaded));
    assert!(
        overloaded > 1_000,
        "{overloaded}: a full queue refuses at once"
    );
    let given_up = count(Err(ApiError::DatabaseUnavailable));
    assert!(
        (1..=256).contains(&given_up),
        "{given_up}: one group was given up"
    );
    let done = count(Ok(()));
    assert!(
        done > 1_000,
        "{done}: the others were done when the lock was gone"
    );
    assert_eq!(likes_that_do_not_add_up(&server), "");
}

#[tokio::test]
async fn a_server_that_stops_answering_hangs_nobody_for_long() {
    let server = start_server(&[]);
    let (_, store) = open(&server).await;
    store.feed().await.unwrap();
    store.health().await.unwrap();
    let signal_all = |signal: &str| {
        let processes = server.processes();
        let pids = processes.iter().map(|(_, pid)| pid.to_string());
        let status = Command::new("kill").arg(signal).args(pids).status();
        assert!(status.unwrap().success());
    };
    signal_all("-STOP");
    let asked = Instant::now();
    let first = tokio::join!(store.feed(), store.health());
    let first_took = asked.elapsed();
    // Now the connection is known to be lost; a new one does not come within its limit.
    sleep(Duration::from_millis(2_500)).await;
    let asked = Instant::now();
    let second = store.feed().await;
    let second_took = asked.elapsed();
    signal_all("-CONT");

    let unavailable = ApiError::DatabaseUnavailable;
    assert_eq!(first, (Err(unavailable), Err(unavailable)));
    assert!(first_took < Duration::from_secs(8), "{first_took:?}");
    assert_eq!(second, Err(unavailable));
    assert!(second_took < Duration::from_millis(500), "{second_took:?}");
    let asked = Instant::now();
    while store.feed().await.is_err() {
        assert!(
            asked.elapsed() < Duration::from_secs(10),
            "it does not come back"
        );
        sleep(Duration::from_millis(20)).await;
    }
}
