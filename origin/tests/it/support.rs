use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use shared::token::{Keys, User};
use testbed::dataset::{Datasets, Scale, Sqlite};
use testbed::{Origin, OriginConfig, origin};

pub const BINARY: &str = env!("CARGO_BIN_EXE_origin");

/// Far more than anything here takes, also on a machine that is busy with something else.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A small dataset of one's own.
pub fn small_dataset() -> Sqlite {
    Datasets::new(BINARY).sqlite(Scale::Small).unwrap()
}

pub fn serving(dataset: &Sqlite) -> OriginConfig {
    OriginConfig::new(BINARY, &dataset.url())
}

/// An origin on a small dataset, with these variables set. The dataset goes away with its value.
pub fn origin(variables: &[(&str, &str)]) -> (Origin, Sqlite) {
    let dataset = small_dataset();
    (origin_on(&dataset, variables), dataset)
}

pub fn origin_on(dataset: &Sqlite, variables: &[(&str, &str)]) -> Origin {
    let config = variables
        .iter()
        .fold(serving(dataset), |config, (name, value)| {
            config.env(name, value)
        });
    Origin::start(config).unwrap()
}

/// An hour for the user of this id.
pub fn token_of(user_id: i64) -> String {
    let now_s = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64;
    let user = User {
        id: user_id,
        username: format!("user_{user_id}"),
    };
    Keys::new(origin::SECRET.as_bytes()).sign(&user, now_s, now_s + 3_600)
}

/// Another process at the same database, in the middle of a write: while this lives, no write of
/// the origin gets anywhere.
pub fn hold_write_lock(database: &Path) -> Connection {
    let connection = Connection::open(database).unwrap();
    connection.busy_timeout(PATIENCE).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

/// A connection that sends what it is told to.
pub struct Client(pub TcpStream);

impl Client {
    pub fn connect(origin: &Origin) -> Client {
        let stream = TcpStream::connect(origin.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client(stream)
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).unwrap();
    }

    /// A `POST` as it goes over the wire.
    pub fn post(path: &str, token: &str, body: &str) -> String {
        let length = body.len();
        format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
    }

    /// The next response: its head, in lower case, and its body.
    pub fn receive(&mut self) -> (String, String) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            head.extend_from_slice(&byte);
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        (head, String::from_utf8(body).unwrap())
    }

    pub fn receive_status(&mut self) -> u16 {
        let (head, _) = self.receive();
        head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Everything until the server closes the connection.
    pub fn receive_to_the_end(&mut self) -> String {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => {}
            // So it looks when the server closes before it has read everything.
            Err(fault) if fault.kind() == ErrorKind::ConnectionReset => {}
            Err(fault) => panic!("{fault}"),
        }
        String::from_utf8(rest).unwrap().to_lowercase()
    }
}
