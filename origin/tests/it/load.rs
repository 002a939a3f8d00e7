//! Readers and writers at a server in which something breaks, and what each of them saw.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::http::{Answer, get, request};

use crate::postgres::POSTS;
use crate::support::token_of;

const READERS: i64 = 6;
pub const WRITERS: i64 = 2;

/// A user's pause between two requests, shortened.
const THINK: Duration = Duration::from_millis(4);

/// Every request with what came of it, and all that was acknowledged.
pub struct Load {
    base_url: String,
    stop: AtomicBool,
    seen: Mutex<Vec<Seen>>,
    phases: Mutex<Vec<(&'static str, Instant)>>,
    created: Mutex<BTreeSet<i64>>,
    liked: Mutex<BTreeSet<(i64, i64)>>,
    newest: AtomicI64,
    failed_reads: Mutex<BTreeSet<String>>,
    not_shown: AtomicI64,
}

struct Seen {
    is_read: bool,
    ended: Instant,
    took: Duration,
    failed: bool,
}

/// What was seen between two events.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    pub name: &'static str,
    pub lasted: Duration,
    pub reads: Count,
    pub writes: Count,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Count {
    pub all: usize,
    pub failed: usize,
    pub p50: Duration,
    pub p99: Duration,
    pub max: Duration,
}

impl Load {
    /// Runs `meanwhile` under load; it says what happens by [`Load::phase`].
    pub fn at(base_url: String, meanwhile: impl FnOnce(&Load)) -> Load {
        let load = Load {
            base_url,
            stop: AtomicBool::new(false),
            seen: Mutex::default(),
            phases: Mutex::default(),
            created: Mutex::default(),
            liked: Mutex::default(),
            newest: AtomicI64::new(POSTS),
            failed_reads: Mutex::default(),
            not_shown: AtomicI64::new(0),
        };
        thread::scope(|scope| {
            for number in 0..READERS {
                let load = &load;
                scope.spawn(move || load.read(number));
            }
            for user_id in 1..=WRITERS {
                let load = &load;
                scope.spawn(move || load.write(user_id));
            }
            // Also when `meanwhile` panics: the threads are waited for.
            let _stop = StopOnDrop(&load.stop);
            meanwhile(&load);
        });
        load
    }

    /// Begins with `event`, and goes on for a while.
    pub fn phase(&self, name: &'static str, event: impl FnOnce(), lasts: Duration) {
        let begins = (name, Instant::now());
        self.phases.lock().unwrap().push(begins);
        event();
        thread::sleep(lasts);
    }

    /// Paths that some read had no answer for.
    pub fn failed_reads(&self) -> BTreeSet<String> {
        self.failed_reads.lock().unwrap().clone()
    }

    /// Writes whose author did not see them in the read that followed the reply.
    pub fn not_shown(&self) -> i64 {
        self.not_shown.load(SeqCst)
    }

    pub fn acknowledged(&self) -> usize {
        self.created.lock().unwrap().len() + self.liked.lock().unwrap().len()
    }

    /// Of what was acknowledged, as the server's own tables have it.
    pub fn lost(&self, query: impl Fn(&str) -> String) -> Vec<String> {
        let rows =
            |sql: &str| -> BTreeSet<String> { query(sql).lines().map(str::to_owned).collect() };
        let posts = rows("SELECT id FROM posts");
        let likes = rows("SELECT post_id || ',' || user_id FROM likes");
        let created = self.created.lock().unwrap();
        let liked = self.liked.lock().unwrap();
        let lost_posts = created.iter().map(i64::to_string);
        let lost_likes = liked.iter().map(|(post, user)| format!("{post},{user}"));
        lost_posts
            .filter(|post| !posts.contains(post))
            .chain(lost_likes.filter(|like| !likes.contains(like)))
            .collect()
    }

    pub fn table(&self) -> Vec<Phase> {
        let (seen, phases) = (self.seen.lock().unwrap(), self.phases.lock().unwrap());
        let last = seen.iter().map(|seen| seen.ended).max();
        let ends = phases.iter().skip(1).map(|(_, at)| *at).chain(last);
        phases
            .iter()
            .zip(ends)
            .map(|(&(name, from), to)| {
                let count = |is_read: bool| {
                    // By when it ended: what was under way saw the event.
                    let those = |seen: &&Seen| {
                        seen.is_read == is_read && seen.ended > from && seen.ended <= to
                    };
                    Count::of(seen.iter().filter(those))
                };
                Phase {
                    name,
                    lasted: to - from,
                    reads: count(true),
                    writes: count(false),
                }
            })
            .collect()
    }

    fn read(&self, number: i64) {
        for turn in 0.. {
            if self.stop.load(SeqCst) {
                return;
            }
            let path = match (turn + number) % 2 {
                0 => "/feed".to_owned(),
                // One of those that the feed shows.
                _ => format!("/posts/{}", self.newest.load(SeqCst) - turn % 20),
            };
            self.get(&path);
            thread::sleep(THINK);
        }
    }

    /// Creates a post, looks at it, likes it, and looks again.
    fn write(&self, user_id: i64) {
        let token = format!("Bearer {}", token_of(user_id));
        let post = |path: &str, body: &str| {
            let url = format!("{}{path}", self.base_url);
            self.ask(false, || {
                request("POST", &url, &[("authorization", &token)], body)
            })
        };
        while !self.stop.load(SeqCst) {
            thread::sleep(THINK * 2);
            let Some(created) = post("/posts", r#"{"body":"kept"}"#) else {
                continue;
            };
            let id = created["post"]["id"].as_i64().unwrap();
            self.created.lock().unwrap().insert(id);
            self.newest.fetch_max(id, SeqCst);
            let feed = self.get("/feed");
            let on_top = feed.is_none_or(|feed| {
                let posts = feed["posts"].as_array().unwrap().clone();
                posts.iter().any(|post| post["id"] == id)
            });
            let liked = post(&format!("/posts/{id}/like"), "");
            let liked = liked.is_some_and(|like| like["liked"] == true);
            if liked {
                self.liked.lock().unwrap().insert((id, user_id));
            }
            let read = self.get(&format!("/posts/{id}"));
            let is_shown = read.is_none_or(|post| !liked || post["post"]["like_count"] == 1);
            if !on_top || !is_shown {
                self.not_shown.fetch_add(1, SeqCst);
            }
        }
    }

    fn get(&self, path: &str) -> Option<Value> {
        let url = format!("{}{path}", self.base_url);
        let answer = self.ask(true, || get(&url));
        if answer.is_none() {
            self.failed_reads.lock().unwrap().insert(path.to_owned());
        }
        answer
    }

    fn ask(&self, is_read: bool, ask: impl Fn() -> testbed::Result<Answer>) -> Option<Value> {
        let at = Instant::now();
        // A 404 is an answer: a killed server leaves gaps between the ids.
        let answer = ask().ok().filter(|answer| answer.status < 500);
        let seen = Seen {
            is_read,
            ended: Instant::now(),
            took: at.elapsed(),
            failed: answer.is_none(),
        };
        self.seen.lock().unwrap().push(seen);
        answer.map(|answer| serde_json::from_str(&answer.body).unwrap())
    }
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

impl Count {
    fn of<'a>(seen: impl Iterator<Item = &'a Seen>) -> Count {
        let (mut took, mut failed) = (Vec::new(), 0);
        for seen in seen {
            took.push(seen.took);
            failed += usize::from(seen.failed);
        }
        took.sort_unstable();
        let at = |share: f64| {
            let place = (took.len() as f64 * share) as usize;
            took.get(place.min(took.len().saturating_sub(1)))
                .copied()
                .unwrap_or_default()
        };
        Count {
            all: took.len(),
            failed,
            p50: at(0.5),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
        let (p50, p99, max) = (ms(self.p50), ms(self.p99), ms(self.max));
        write!(
            f,
            "{:>5} | {:>5} | {p50:>6.1} | {p99:>6.1} | {max:>6.1}",
            self.all, self.failed
        )
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<34} | reads | failed | p50 | p99 | max ms || writes | failed | p50 | p99 | max ms",
            ""
        )?;
        for phase in self.table() {
            let name = format!("{}, {:.1} s", phase.name, phase.lasted.as_secs_f64());
            writeln!(f, "{name:<34} | {} || {}", phase.reads, phase.writes)?;
        }
        Ok(())
    }
}
