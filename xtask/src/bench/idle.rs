//! Memory of idle keep-alive connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use testbed::{Error, Result, Server, process};

use super::subject::{Kind, Programs, Sizes, Subject};
use crate::step::step;

#[derive(clap::Args)]
pub struct Args {
    /// How many connections are held open
    #[arg(long, default_value_t = 15_000)]
    connections: usize,
    /// What each of them asked for, once
    #[arg(long, default_value = "/feed")]
    path: String,
}

/// To reach: no more per connection than this.
const TARGET_KB: f64 = 18.0;
/// For what the process needs besides the connections.
const SPARE_FILES: u64 = 100;

pub fn run(args: &Args) -> Result<()> {
    allow_files(args.connections as u64 + SPARE_FILES)?;
    let programs = step("build (release)", || Programs::build(true))?;
    step("dataset", || programs.prepare(&[Kind::Sqlite]))?;
    println!(
        "Anonymous memory per idle keep-alive connection; {} of them, each made one GET {}:",
        args.connections, args.path
    );
    for kind in [Kind::Bare, Kind::Sqlite] {
        let subject = Subject::start(kind, &programs, &Sizes::default())?;
        // What the first requests bring up for good is no connection's share.
        drop(hold(&subject.server, &args.path, 100)?);
        std::thread::sleep(Duration::from_millis(500));
        let before = process::memory(subject.server.pid())?;
        let held = hold(&subject.server, &args.path, args.connections)?;
        std::thread::sleep(Duration::from_secs(2));
        let after = process::memory(subject.server.pid())?;
        check_open(held)?;
        let grown = after.anonymous_bytes.saturating_sub(before.anonymous_bytes);
        let each_kb = grown as f64 / 1000.0 / args.connections as f64;
        let verdict = match kind {
            Kind::Bare => "",
            _ if each_kb <= TARGET_KB => "  (≤ 18 kB: PASS)",
            _ => "  (≤ 18 kB: miss)",
        };
        println!(
            "    {:<8} {each_kb:>6.2} kB each; whole process {:.1} MB anonymous, {:.1} MB resident{verdict}",
            kind.name(),
            after.anonymous_bytes as f64 / 1e6,
            after.resident_bytes as f64 / 1e6,
        );
    }
    Ok(())
}

/// Opens connections and makes one request on each.
fn hold(server: &Server, path: &str, count: usize) -> Result<Vec<TcpStream>> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let open = || -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(server.address())?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(request.as_bytes())?;
        read_answer(&mut stream)?;
        Ok(stream)
    };
    (0..count)
        .map(|n| {
            open().map_err(|error| Error::new(format!("connection {} of {count}: {error}", n + 1)))
        })
        .collect()
}

/// Reads one answer that says its length.
fn read_answer(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut answer = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        let count = stream.read(&mut chunk)?;
        answer.extend_from_slice(&chunk[..count]);
        let invalid = |what: &str| std::io::Error::other(what.to_owned());
        if count == 0 {
            return Err(invalid("closed before the answer was complete"));
        }
        let Some(head_bytes) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&answer[..head_bytes]).to_ascii_lowercase();
        if !head.starts_with("http/1.1 200") {
            return Err(invalid(head.lines().next().unwrap_or_default()));
        }
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"))
            .and_then(|value| value.trim().parse::<usize>().ok())
            .ok_or_else(|| invalid("no content-length"))?;
        if answer.len() >= head_bytes + 4 + length {
            return Ok(());
        }
    }
}

/// A connection the server closed meanwhile would make the others look cheap.
fn check_open(held: Vec<TcpStream>) -> Result<()> {
    let is_open = |mut stream: &TcpStream| {
        stream.set_nonblocking(true).is_ok()
            && stream
                .read(&mut [0])
                .is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    let closed = held.iter().filter(|stream| !is_open(stream)).count();
    match closed {
        0 => Ok(()),
        _ => Err(Error::new(format!(
            "the server closed {closed} of {} idle connections",
            held.len()
        ))),
    }
}

fn allow_files(needed: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        return Err(Error::new(format!(
            "this needs {needed} open files, the limit is {}: raise it (ulimit -Hn) or hold fewer \
             --connections",
            limit.maximum.unwrap_or_default()
        )));
    }
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised)
        .map_err(|error| Error::new(format!("cannot raise the limit of open files: {error}")))
}
