//! The suite can fail: servers that are wrong do not pass.

use conformance::{BaseUrl, Options, Report};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// A server that treats every connection like this. Its threads end with the test's process.
fn server(serve: fn(TcpStream)) -> BaseUrl {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    base
}

fn run(base_url: BaseUrl) -> (Report, String) {
    let mut out = Vec::new();
    let options = Options {
        head_timeout: Duration::from_secs(1),
        body_timeout: Duration::from_secs(1),
        ..Options::new(base_url, "secret")
    };
    let report = conformance::run(&options, &mut out);
    (report, String::from_utf8(out).unwrap())
}

/// Answers whatever comes with 200 and an empty object, and stays.
fn yes_to_everything(mut stream: TcpStream) {
    let mut buffer = [0; 64 * 1024];
    while let Ok(1..) = stream.read(&mut buffer) {
        let answer =
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}

/// Answers whatever comes with the one error that most checks of errors know.
fn not_found_to_everything(mut stream: TcpStream) {
    let mut buffer = [0; 64 * 1024];
    while let Ok(1..) = stream.read(&mut buffer) {
        let answer = b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n{\"error\":\"not found\"}";
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}

#[test]
fn no_check_passes_when_everything_is_200() {
    let (report, out) = run(server(yes_to_everything));
    // To a HEAD a bare 200 is the right answer; that it has GET's headers is a check of its own.
    let passed: Vec<&str> = out
        .lines()
        .filter(|line| {
            line.starts_with("ok") && !(line.contains("HEAD") && line.ends_with("is 200"))
        })
        .collect();
    assert!(passed.is_empty(), "{passed:#?}");
    assert!(
        !report.passed() && report.failures.len() > 600,
        "{}",
        report.failures.len()
    );
}

#[test]
fn only_unknown_paths_pass_when_everything_is_404() {
    let (report, out) = run(server(not_found_to_everything));
    let wrong: Vec<&str> = out
        .lines()
        .filter(|line| {
            line.starts_with("ok") && !line.contains("not found") && !line.contains("is 404")
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(report.passed > 0 && !report.passed());
}

#[test]
fn no_check_passes_when_every_connection_is_dropped() {
    let (_, out) = run(server(drop));
    let passed: Vec<&str> = out.lines().filter(|line| line.starts_with("ok")).collect();
    assert!(passed.is_empty(), "{passed:#?}");
}

#[test]
fn a_server_that_is_not_there_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    drop(listener);
    let (report, out) = run(base);
    assert!(!report.passed());
    assert!(out.starts_with("FAIL cannot connect"), "{out}");
}

#[test]
fn a_selection_of_nothing_is_no_success() {
    let options = Options {
        only: Some("no such check".into()),
        ..Options::new(server(yes_to_everything), "secret")
    };
    assert!(!conformance::run(&options, &mut Vec::new()).passed());
}

#[test]
fn the_list_starts_with_the_42_checks_of_the_challenge() {
    let mut out = Vec::new();
    conformance::list(&mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert_eq!(
        out.lines()
            .filter(|line| line.contains(" challenge/"))
            .count(),
        42
    );
    assert!(out.lines().nth(41).unwrap().starts_with("042 challenge/"));
}
