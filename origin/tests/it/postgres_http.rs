//! The origin on PostgreSQL, from outside: what it promised survives it and its database.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::http::{Answer, get, request};
use testbed::postgres::{PASSWORD, Stop};
use testbed::{Origin, OriginConfig, Postgres, wait_until};

use crate::postgres::{USERS, likes_that_do_not_add_up, start_server};
use crate::support::{BINARY, PATIENCE, token_of};

fn origin_on(server: &Postgres) -> Origin {
    let config = OriginConfig::new(BINARY, &server.url()).env("WORKERS", "2");
    Origin::start(config).unwrap()
}

fn post(url: &str, user_id: i64, body: &str) -> testbed::Result<Answer> {
    let token = format!("Bearer {}", token_of(user_id));
    request("POST", url, &[("authorization", &token)], body)
}

fn json(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap()
}

/// Creates and likes as different users until told to stop. Every answered create goes into
/// `created`, and every answered like of it into `liked`. Anything but success must be a 503 or,
/// where the origin itself is killed, a broken connection.
struct Writers {
    base_url: String,
    stop: AtomicBool,
    created: Mutex<BTreeSet<i64>>,
    liked: Mutex<BTreeSet<i64>>,
}

impl Writers {
    fn new(origin: &Origin) -> Writers {
        Writers {
            base_url: origin.base_url(),
            stop: AtomicBool::new(false),
            created: Mutex::default(),
            liked: Mutex::default(),
        }
    }

    fn write_as(&self, user_id: i64) {
        while !self.stop.load(SeqCst) {
            let url = format!("{}/posts", self.base_url);
            let Some(answer) = succeeded(post(&url, user_id, r#"{"body":"kept"}"#)) else {
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            let id = json(&answer)["post"]["id"].as_i64().unwrap();
            self.created.lock().unwrap().insert(id);
            let url = format!("{url}/{id}/like");
            if succeeded(post(&url, user_id, "")).is_some() {
                self.liked.lock().unwrap().insert(id);
            }
        }
    }

    /// Runs `meanwhile` while eight users write.
    fn during(&self, meanwhile: impl FnOnce()) {
        thread::scope(|scope| {
            for user_id in 1..=8 {
                scope.spawn(move || self.write_as(user_id));
            }
            meanwhile();
            self.stop.store(true, SeqCst);
        });
    }

    fn count(&self) -> usize {
        self.created.lock().unwrap().len()
    }

    /// Waits until so many more creates were answered.
    fn wait_for_more(&self, more: usize) {
        let wanted = self.count() + more;
        let asked = Instant::now();
        while self.count() < wanted {
            assert!(
                asked.elapsed() < Duration::from_secs(20),
                "nothing is written any more"
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn assert_all_kept(&self, base_url: &str) {
        let liked = self.liked.lock().unwrap();
        for id in self.created.lock().unwrap().iter() {
            let answer = answered(&format!("{base_url}/posts/{id}"));
            assert_eq!(answer.status, 200, "post {id} is lost");
            let like_count = json(&answer)["post"]["like_count"].as_i64().unwrap();
            assert!(
                like_count >= i64::from(liked.contains(id)),
                "post {id} lost its like"
            );
        }
    }
}

/// Asks until the database is there for this one too: each kind of call has a connection of its own
/// in each worker, and they come back one by one.
fn answered(url: &str) -> Answer {
    let mut last = None;
    wait_until(&format!("an answer of {url}"), PATIENCE, || {
        let answer = last.insert(get(url)?);
        Ok(answer.status != 503)
    })
    .unwrap();
    last.unwrap()
}

fn succeeded(answer: testbed::Result<Answer>) -> Option<Answer> {
    let answer = answer.ok()?;
    if answer.status == 503 {
        assert_eq!(answer.header("retry-after"), Some("1"));
        return None;
    }
    assert_eq!(answer.status, 201, "{answer:?}");
    Some(answer)
}

#[test]
fn an_origin_killed_while_it_writes_loses_nothing_it_acknowledged() {
    let server = start_server(&[]);
    let origin = origin_on(&server);
    let writers = Writers::new(&origin);
    let mut origin = Some(origin);
    writers.during(|| {
        writers.wait_for_more(100);
        origin.take().unwrap().kill();
    });
    let origin = origin_on(&server);
    writers.assert_all_kept(&origin.base_url());
    assert_eq!(likes_that_do_not_add_up(&server), "");
}

#[test]
fn a_terminated_origin_finishes_what_it_holds() {
    let server = start_server(&[]);
    let mut origin = origin_on(&server);
    let writers = Writers::new(&origin);
    writers.during(|| {
        writers.wait_for_more(100);
        let status = origin.terminate().unwrap();
        assert!(status.success(), "{status}");
    });
    let origin = origin_on(&server);
    writers.assert_all_kept(&origin.base_url());
    assert_eq!(likes_that_do_not_add_up(&server), "");
}

#[test]
fn a_database_that_goes_is_answered_503_and_picked_up_again() {
    let mut server = start_server(&[]);
    let origin = origin_on(&server);
    let base_url = origin.base_url();
    let writers = Writers::new(&origin);
    writers.during(|| {
        for how in [Stop::Fast, Stop::Kill] {
            writers.wait_for_more(50);
            server.stop(how).unwrap();
            thread::sleep(Duration::from_millis(200));

            let health = get(&format!("{base_url}/health")).unwrap();
            assert_eq!(health.status, 503);
            assert_eq!(json(&health)["status"], "degraded");
            assert_eq!(json(&health)["db"], "unreachable");
            assert!(
                !health.body.contains(PASSWORD) && !health.body.contains("://"),
                "{health:?}"
            );
            let asked = Instant::now();
            let feed = get(&format!("{base_url}/feed")).unwrap();
            assert_eq!(feed.status, 503);
            assert_eq!(feed.header("retry-after"), Some("1"));
            assert_eq!(feed.body, r#"{"error":"database unavailable"}"#);
            assert!(
                asked.elapsed() < Duration::from_millis(500),
                "{:?}",
                asked.elapsed()
            );

            server.start_again().unwrap();
        }
        writers.wait_for_more(50);
    });
    writers.assert_all_kept(&base_url);
    assert_eq!(likes_that_do_not_add_up(&server), "");
    assert_eq!(answered(&format!("{base_url}/health")).status, 200);
}

#[test]
fn sixteen_identical_likes_give_one_201() {
    let server = start_server(&[]);
    let origin = origin_on(&server);
    for post_id in 1..=10 {
        let url = format!("{}/posts/{post_id}/like", origin.base_url());
        let mut statuses: Vec<u16> = thread::scope(|scope| {
            let likes: Vec<_> = (0..16)
                .map(|_| scope.spawn(|| post(&url, USERS, "").unwrap().status))
                .collect();
            likes.into_iter().map(|like| like.join().unwrap()).collect()
        });
        statuses.sort_unstable();
        assert_eq!(statuses[..15], [200; 15]);
        assert_eq!(statuses[15], 201);
    }
    assert_eq!(likes_that_do_not_add_up(&server), "");
}
