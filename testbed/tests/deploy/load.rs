//! Users in a closed loop, each with one keep-alive connection, who never overlook a failure:
//! nothing is tried again.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

pub struct Load {
    pub address: SocketAddr,
    pub users: usize,
    /// The mean wait between two requests of a user.
    pub think_time: Duration,
    pub headers: Vec<(&'static str, String)>,
}

#[derive(Debug, Default)]
pub struct Outcome {
    pub answered: usize,
    pub failures: Vec<String>,
}

impl Load {
    /// Runs until `work` returns.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> (T, Outcome) {
        let over = AtomicBool::new(false);
        let answered = AtomicUsize::new(0);
        let failures = Mutex::new(Vec::new());
        let result = thread::scope(|scope| {
            for number in 0..self.users {
                let mut user = User {
                    load: self,
                    number,
                    random: number as u64 + 1,
                    connection: None,
                };
                let (over, answered, failures) = (&over, &answered, &failures);
                let run = move || {
                    user.think();
                    while !over.load(Ordering::Relaxed) {
                        match user.request() {
                            Ok(()) => drop(answered.fetch_add(1, Ordering::Relaxed)),
                            Err(failure) => failures.lock().unwrap().push(failure),
                        }
                        user.think();
                    }
                };
                thread::Builder::new()
                    .stack_size(128 * 1024)
                    .spawn_scoped(scope, run)
                    .unwrap();
            }
            // Also when it panics, or the users would never end.
            let _end = OnDrop(|| over.store(true, Ordering::Relaxed));
            work()
        });
        let failures = failures.into_inner().unwrap();
        (
            result,
            Outcome {
                answered: answered.into_inner(),
                failures,
            },
        )
    }
}

struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

struct User<'a> {
    load: &'a Load,
    number: usize,
    random: u64,
    connection: Option<BufReader<TcpStream>>,
}

impl User<'_> {
    /// Feed or a post, and now and then a like.
    fn request(&mut self) -> Result<(), String> {
        let post = 1 + self.next() % 1_000;
        let (method, path) = match self.next() % 100 {
            0..46 => ("GET", "/feed".to_owned()),
            46..93 => ("GET", format!("/posts/{post}")),
            _ => ("POST", format!("/posts/{post}/like")),
        };
        self.exchange(method, &path)
            .map_err(|failure| format!("user {}, {method} {path}: {failure}", self.number))
    }

    fn exchange(&mut self, method: &str, path: &str) -> Result<(), String> {
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: test\r\n");
        for (name, value) in &self.load.headers {
            let _ = write!(request, "{name}: {value}\r\n");
        }
        request.push_str("\r\n");
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(self.load.address).map_err(|error| format!("connect: {error}"))?,
        };
        let explain = |error: std::io::Error| error.to_string();
        connection
            .get_mut()
            .write_all(request.as_bytes())
            .map_err(explain)?;

        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if connection.read_line(&mut head).map_err(explain)? == 0 {
                return Err(format!("closed after {head:?}"));
            }
        }
        let head = head.to_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length = length
            .and_then(|length| length.parse().ok())
            .ok_or("no content-length")?;
        let mut body = vec![0; length];
        connection.read_exact(&mut body).map_err(explain)?;
        if !head.contains("connection: close") {
            self.connection = Some(connection);
        }
        match head.split(' ').nth(1) {
            Some("200" | "201") => Ok(()),
            _ => Err(format!("{head}{}", String::from_utf8_lossy(&body))),
        }
    }

    /// From nothing to twice the mean, evenly.
    fn think(&mut self) {
        let per_mille = self.next() % 2_000;
        thread::sleep(self.load.think_time * per_mille as u32 / 1_000);
    }

    /// xorshift64.
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

fn connect(address: SocketAddr) -> std::io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(BufReader::with_capacity(16 * 1024, stream))
}
