//! An edge in front of a scripted origin, and readers to put before it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shared::token::{Keys, User};
use testbed::http::{self, Answer};
use testbed::origin::SECRET;
use testbed::{ScriptedOrigin, WorkerConfig, Workerd, workerd};

pub struct Stage {
    pub origin: ScriptedOrigin,
    pub edge: Workerd,
}

/// Short windows, so that a test can wait for their ends; long enough not to be missed by a busy
/// machine.
pub const TTL: Duration = Duration::from_millis(1_000);
pub const STALE: Duration = Duration::from_millis(3_000);

impl Stage {
    pub fn new() -> Stage {
        Stage::with(|config| config)
    }

    pub fn with(change: impl FnOnce(WorkerConfig) -> WorkerConfig) -> Stage {
        let origin = ScriptedOrigin::start().unwrap();
        let config = edge_config(&origin.base_url());
        let edge = Workerd::start(&change(config)).unwrap();
        Stage { origin, edge }
    }

    pub fn feed(&self) -> Answer {
        self.edge.get("/feed").unwrap()
    }

    /// Asks for the feed until it has been fetched, then says how old it is at most.
    pub fn warm(&self) -> Answer {
        let answer = self.feed();
        assert_eq!(answer.status, 200, "{answer:?}");
        answer
    }

    /// As many readers as that, all at once.
    pub fn crowd(&self, readers: usize, path: &str) -> Vec<Answer> {
        crowd(&self.edge.url(path), readers)
    }
}

pub fn crowd(url: &str, readers: usize) -> Vec<Answer> {
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..readers)
            .map(|_| scope.spawn(|| http::get(url).unwrap()))
            .collect();
        readers.into_iter().map(|r| r.join().unwrap()).collect()
    })
}

pub fn edge_config(origins: &str) -> WorkerConfig {
    let modules = workerd::edge_modules(&[]).unwrap();
    WorkerConfig::new(&modules.path)
        .var("ORIGINS", origins)
        .var("CACHE", "isolate")
        .var("FEED_TTL_MS", TTL.as_millis())
        .var("FEED_STALE_MS", STALE.as_millis())
        .var("STALE_IF_ERROR_MS", 8_000)
        .var("ORIGIN_TIMEOUT_MS", 2_000)
        .var("ORIGIN_REST_MS", 300)
        .var("JWT_SECRET", SECRET)
}

pub fn token(user_id: i64) -> String {
    let user = User {
        id: user_id,
        username: format!("user_{user_id}"),
    };
    let now_s = now_ms() as i64 / 1_000;
    Keys::new(SECRET.as_bytes()).sign(&user, now_s, now_s + 3_600)
}

pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_millis() as u64
}

/// A number out of a body like `{"version":7,…}`.
pub fn number(answer: &Answer, name: &str) -> u64 {
    let json: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    json[name]
        .as_u64()
        .unwrap_or_else(|| panic!("no {name} in {}", answer.body))
}

/// A connection of which a test has every byte in hand.
pub struct RawClient(TcpStream);

impl RawClient {
    pub fn connect(edge: &Workerd) -> RawClient {
        let stream = TcpStream::connect(edge.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        RawClient(stream)
    }

    pub fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).unwrap();
    }

    pub fn get(&mut self, path: &str) {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: edge\r\n\r\n"));
    }

    /// Leaves as a broken connection does: with a reset.
    pub fn reset(self) {
        rustix::net::sockopt::set_socket_linger(&self.0, Some(Duration::ZERO)).unwrap();
    }

    /// All that comes until the other side closes.
    pub fn read_to_end(mut self) -> String {
        let mut all = Vec::new();
        let _ = self.0.read_to_end(&mut all);
        String::from_utf8_lossy(&all).into_owned()
    }
}
