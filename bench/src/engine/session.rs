//! What all users of one run share, and how a request is made and recorded.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use memchr::memmem;

use super::connection::{Connection, Failure, ReadBuffer};
use super::load::Load;
use super::record::{Kind, Outcome, Recorder};
use super::tokens::Token;

/// As k6's; a request that took longer has failed.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// One thread runs all users, so plain cells do.
pub struct Session {
    pub load: Load,
    pub start: Instant,
    pub tokens: Vec<Token>,
    pub recorder: RefCell<Recorder>,
    pub users: Cell<u32>,
    pub in_flight: Cell<u32>,
    /// Whoever asks for random numbers in between; each user has its own.
    pub random: RefCell<Rng>,
    buffer: ReadBuffer,
    host: String,
}

/// Raised while it lives.
pub struct Counting<'a>(&'a Cell<u32>);

impl<'a> Counting<'a> {
    pub fn new(cell: &'a Cell<u32>) -> Self {
        cell.set(cell.get() + 1);
        Counting(cell)
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Counts a request as unanswered should the run end before it does.
struct Pending<'a> {
    session: &'a Session,
    kind: Kind,
    since: Instant,
    is_open: bool,
}

impl Pending<'_> {
    fn end(&mut self, latency: Option<Duration>, outcome: Outcome) {
        self.is_open = false;
        let mut recorder = self.session.recorder.borrow_mut();
        recorder.record(self.kind, self.since, latency, outcome);
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.is_open {
            let waited = self.since.elapsed();
            self.end(Some(waited), Outcome::Failed("unanswered at the end"));
        }
    }
}

impl Session {
    pub fn new(load: Load, tokens: Vec<Token>) -> Rc<Self> {
        let start = Instant::now();
        let hold = start + load.ramp_up()..start + load.hold_end();
        Rc::new(Session {
            start,
            tokens,
            recorder: RefCell::new(Recorder::new(hold)),
            users: Cell::new(0),
            in_flight: Cell::new(0),
            random: RefCell::new(Rng::with_seed(load.seed)),
            buffer: ReadBuffer::new(),
            host: host_header(load.address),
            load,
        })
    }

    /// Seeded by the run and the user, so that a run can be repeated.
    pub fn random_of(&self, user: u32) -> Rng {
        Rng::with_seed(self.load.seed ^ (u64::from(user) << 32) ^ 0x9e37_79b9)
    }

    /// Makes one request. `due` says when it should have been sent: in an open loop that is
    /// where its latency begins, in a closed one (`None`) when it is sent.
    pub async fn request<T>(
        &self,
        connection: &mut Connection,
        kind: Kind,
        request: &[u8],
        due: Option<Instant>,
        read: impl FnOnce(u16, &[u8]) -> Option<T>,
    ) -> Option<T> {
        let _in_flight = Counting::new(&self.in_flight);
        let asked = Instant::now();
        let mut pending = Pending {
            session: self,
            kind,
            since: due.unwrap_or(asked),
            is_open: true,
        };
        let is_new = match tokio::time::timeout(REQUEST_LIMIT, connection.open()).await {
            Ok(Ok(is_new)) => is_new,
            Ok(Err(_)) => {
                pending.end(None, Outcome::Failed("could not connect"));
                return None;
            }
            Err(_) => {
                pending.end(None, Outcome::Failed("connecting timed out"));
                return None;
            }
        };
        if is_new {
            self.recorder.borrow_mut().connected(asked.elapsed());
        }
        if due.is_none() {
            pending.since = Instant::now();
        }
        let mut status = 0;
        let exchange = connection.exchange(request, &self.buffer, |code, body| {
            status = code;
            read(code, body)
        });
        let answered = tokio::time::timeout(REQUEST_LIMIT, exchange).await;
        let latency = pending.since.elapsed();
        match answered {
            Ok(Ok(Some(value))) if (200..300).contains(&status) => {
                pending.end(Some(latency), Outcome::Ok);
                return Some(value);
            }
            Ok(Ok(_)) if (200..300).contains(&status) => {
                pending.end(Some(latency), Outcome::Failed("not the expected body"));
            }
            Ok(Ok(_)) => pending.end(Some(latency), Outcome::Status(status)),
            Ok(Err(failure)) => pending.end(None, Outcome::Failed(failure.reason())),
            Err(_) => pending.end(Some(latency), Outcome::Failed("timed out")),
        }
        None
    }

    pub async fn feed(
        &self,
        connection: &mut Connection,
        due: Option<Instant>,
    ) -> Option<Vec<u64>> {
        let request = self.get("/feed");
        self.request(connection, Kind::Feed, &request, due, |_, body| {
            let ids = post_ids(body);
            (!ids.is_empty()).then_some(ids)
        })
        .await
    }

    pub async fn post(&self, connection: &mut Connection, id: u64, due: Option<Instant>) {
        let request = self.get(&format!("/posts/{id}"));
        self.request(connection, Kind::Post, &request, due, |_, _| Some(()))
            .await;
    }

    pub async fn like(
        &self,
        connection: &mut Connection,
        id: u64,
        token: &Token,
        due: Option<Instant>,
    ) {
        let request = format!(
            "POST /posts/{id}/like HTTP/1.1\r\n{}Authorization: Bearer {}\r\nContent-Length: 0\r\n\r\n",
            self.host, token.token
        );
        let request = request.as_bytes();
        self.request(connection, Kind::Like, request, due, |_, _| Some(()))
            .await;
    }

    /// `by` and `count` tell one text from another.
    pub async fn create(
        &self,
        connection: &mut Connection,
        token: &Token,
        (by, count): (u32, u64),
        due: Option<Instant>,
    ) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ms = now.unwrap_or_default().as_millis();
        let body = format!(
            r#"{{"body":"{} writes at {now_ms}, user {by}, turn {count}"}}"#,
            token.username
        );
        let request = format!(
            "POST /posts HTTP/1.1\r\n{}Authorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.host,
            token.token,
            body.len()
        );
        let request = request.as_bytes();
        self.request(connection, Kind::Create, request, due, |_, _| Some(()))
            .await;
    }

    pub async fn health(&self, connection: &mut Connection) {
        let request = self.get("/health");
        self.request(connection, Kind::Health, &request, None, |_, _| Some(()))
            .await;
    }

    fn get(&self, path: &str) -> Vec<u8> {
        format!("GET {path} HTTP/1.1\r\n{}\r\n", self.host).into_bytes()
    }
}

impl Failure {
    fn reason(self) -> &'static str {
        match self {
            Failure::Connect => "could not connect",
            Failure::Closed => "closed before the answer was complete",
            Failure::Malformed => "not an HTTP answer",
        }
    }
}

fn host_header(address: SocketAddr) -> String {
    format!("Host: {address}\r\nUser-Agent: onebox-bench\r\n")
}

/// The ids of a feed, in its order. A quote within a text is escaped, so this sequence of
/// bytes is where an object begins and nowhere else.
fn post_ids(body: &[u8]) -> Vec<u64> {
    const BEFORE: &[u8] = br#"{"id":"#;
    let digits = |at: usize| {
        body[at + BEFORE.len()..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .fold(0u64, |number, digit| {
                number
                    .wrapping_mul(10)
                    .wrapping_add(u64::from(digit - b'0'))
            })
    };
    memmem::find_iter(body, BEFORE)
        .map(digits)
        .filter(|id| *id > 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_looks_like_a_post_is_not_one() {
        let body = br#"{"posts":[{"id":12,"body":"{\"id\":99","x":1},{"id":7,"body":"b"}]}"#;
        assert_eq!(post_ids(body), [12, 7]);
        assert!(post_ids(br#"{"posts":[]}"#).is_empty());
    }
}
