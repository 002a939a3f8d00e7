//! An origin that does as it is told: slow, silent, broken or gone, whenever a test says so.
//!
//! It answers every path from a counter and notes what arrived, so that a test can say how often
//! the edge asked, and with what. What a real origin does is for the real origin to show.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Result;
use crate::error::Context;

/// How it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    Well,
    /// Well, after this long.
    Slow(Duration),
    /// Takes the request and never answers.
    Silent,
    /// Answers 500 without looking.
    Broken,
    /// Takes the request, then drops the connection.
    Rude,
}

/// A request as it arrived. Header names are in lower case.
#[derive(Debug, Clone)]
pub struct Arrived {
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

#[derive(Debug)]
pub struct ScriptedOrigin {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    mood: Mood,
    /// `None` while it is stopped. A new value makes the old acceptor end.
    open: Option<u64>,
    connections: Vec<TcpStream>,
    arrived: Vec<Arrived>,
    /// In the body of a feed. It rises with every render, or only when told to.
    version: u64,
    rises: bool,
    /// How much longer a feed's body is made.
    padding_bytes: usize,
    generation: u64,
}

impl ScriptedOrigin {
    pub fn start() -> Result<Self> {
        let listener = listen((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = listener
            .local_addr()
            .context(|| "scripted origin".to_owned())?;
        let origin = ScriptedOrigin {
            address,
            shared: Arc::new(Mutex::new(Shared {
                mood: Mood::Well,
                open: None,
                connections: Vec::new(),
                arrived: Vec::new(),
                version: 0,
                rises: true,
                padding_bytes: 0,
                generation: 0,
            })),
        };
        origin.accept(listener);
        Ok(origin)
    }

    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn set(&self, mood: Mood) {
        self.lock().mood = mood;
    }

    /// From now on the feed stays as it is.
    pub fn freeze(&self) {
        self.lock().rises = false;
    }

    /// The feed changes, once.
    pub fn change(&self) {
        self.lock().version += 1;
    }

    /// Makes the feed about as long as a real one.
    pub fn pad(&self, bytes: usize) {
        self.lock().padding_bytes = bytes;
    }

    /// Refuses connections and resets those it has.
    pub fn stop(&self) {
        let mut shared = self.lock();
        shared.open = None;
        for connection in shared.connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        drop(shared);
        // The acceptor sees that it is over when somebody knocks.
        let _ = TcpStream::connect(self.address);
        let closed =
            || TcpStream::connect_timeout(&self.address, Duration::from_millis(50)).is_err();
        let start = Instant::now();
        while !closed() && start.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Comes back on the same port.
    pub fn resume(&self) -> Result<()> {
        self.accept(listen(self.address)?);
        Ok(())
    }

    /// All requests of a method and a path that arrived so far.
    pub fn arrived(&self, method: &str, path: &str) -> Vec<Arrived> {
        let shared = self.lock();
        let wanted = |request: &&Arrived| request.method == method && request.path == path;
        shared.arrived.iter().filter(wanted).cloned().collect()
    }

    /// How often a path was asked for with GET.
    pub fn hits(&self, path: &str) -> usize {
        self.arrived("GET", path).len()
    }

    /// How many requests arrived, of any kind.
    pub fn total(&self) -> usize {
        self.lock().arrived.len()
    }

    pub fn forget(&self) {
        self.lock().arrived.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }

    fn accept(&self, listener: TcpListener) {
        let shared = self.shared.clone();
        let generation = {
            let mut shared = lock(&shared);
            shared.generation += 1;
            shared.open = Some(shared.generation);
            shared.generation
        };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { continue };
                let mut state = lock(&shared);
                if state.open != Some(generation) {
                    return;
                }
                let Ok(second) = stream.try_clone() else {
                    continue;
                };
                state.connections.push(second);
                drop(state);
                let shared = shared.clone();
                std::thread::spawn(move || {
                    serve(&stream, &shared);
                    let _ = stream.shutdown(Shutdown::Both);
                });
            }
        });
    }
}

impl Drop for ScriptedOrigin {
    fn drop(&mut self) {
        self.stop();
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Binds with SO_REUSEADDR, as std does, so that it can come back at once.
fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).context(|| format!("cannot listen on {address}"))
}

fn serve(stream: &TcpStream, shared: &Mutex<Shared>) {
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader) {
        let mut state = lock(shared);
        state.arrived.push(request.clone());
        let mood = state.mood;
        drop(state);
        let answer = match mood {
            Mood::Well => answer(&request, shared),
            Mood::Slow(delay) => {
                // What it shows is what was so when it was asked.
                let answer = answer(&request, shared);
                std::thread::sleep(delay);
                answer
            }
            Mood::Broken => response(500, "", r#"{"error":"internal server error"}"#),
            Mood::Silent => {
                // Until the other side gives up.
                let _ = reader.read(&mut [0]);
                return;
            }
            Mood::Rude => return,
        };
        if (&mut &*stream).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn read_request(reader: &mut BufReader<&TcpStream>) -> Option<Arrived> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&read| read > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|&read| read > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers
        .get("content-length")
        .map_or(Some(0), |n| n.parse().ok())?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Arrived {
        method,
        path,
        headers,
        body,
    })
}

fn answer(request: &Arrived, shared: &Mutex<Shared>) -> String {
    let now_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis());
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/health") => response(200, "", r#"{"status":"ok","db":"ok","uptime_s":1}"#),
        ("GET", "/feed") => {
            let mut state = lock(shared);
            let etag = format!("\"v{}\"", state.version);
            if request.headers.get("if-none-match") == Some(&etag) && !state.rises {
                return response(304, &format!("etag: {etag}\r\n"), "");
            }
            if state.rises {
                state.version += 1;
            }
            let version = state.version;
            let padding = " ".repeat(state.padding_bytes);
            drop(state);
            let body =
                format!(r#"{{"posts":[],"version":{version},"rendered_ms":{now_ms}}}{padding}"#);
            response(200, &format!("etag: \"v{version}\"\r\n"), &body)
        }
        ("GET", "/posts/404") => response(404, "", r#"{"error":"post not found"}"#),
        ("GET", path) => {
            let id = path.trim_start_matches("/posts/");
            response(
                200,
                "",
                &format!(r#"{{"post":{{"id":{id}}},"rendered_ms":{now_ms}}}"#),
            )
        }
        (_, path) if path.ends_with("/like") => response(
            201,
            "",
            r#"{"liked":true,"already_liked":false,"post_id":1}"#,
        ),
        _ => response(201, "", r#"{"post":{"id":1}}"#),
    }
}

fn response(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} -\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
}
