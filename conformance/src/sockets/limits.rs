//! Too large, too slow, or gone.

use super::{CLOSE_WITHIN, check, create_head, expect_refused, serves_on};
use crate::check::Check;
use crate::expect::{self, Verdict};
use crate::http::{Connection, Request};
use crate::probe::Probe;
use std::time::{Duration, Instant};

/// Above every sensible limit of a head, and small enough to be read away by the one who refuses it.
const OVERSIZED_HEAD_BYTES: usize = 256 * 1024;

/// What a server may need beyond its time limit.
const SLACK: Duration = Duration::from_secs(3);

pub fn checks() -> Vec<Check> {
    vec![
        check("one header of 256 KiB: 431 and closed", one_large_header),
        check(
            "many headers of 256 KiB together: 431 and closed",
            many_headers,
        ),
        check("a target of 256 KiB: refused and closed", large_target),
        check("an upload of 1 MiB gets its 413", large_upload),
        check(
            "a chunk's extension of 256 KiB: refused and closed",
            large_chunk_extension,
        ),
        check("trailers of 256 KiB: refused and closed", large_trailers),
        check(
            "a body in 16,384 chunks with long extensions: answered or refused",
            padded_chunks,
        ),
        check("a head that never ends: 408 and closed", endless_head).waits(),
        check("a head that trickles: 408 and closed", trickling_head).waits(),
        check(
            "a second head that never ends: 408 and closed",
            endless_second_head,
        )
        .waits(),
        check("a body that never ends: refused or closed", endless_body).waits(),
        check(
            "an idle connection outlives the limit of a head",
            idle_connection,
        )
        .waits(),
        check(
            "an abandoned upload leaves nothing behind",
            abandoned_upload,
        ),
        check("an abandoned head leaves nothing behind", abandoned_head),
        check("a reader that leaves takes nobody along", abandoned_read),
    ]
}

fn too_large(probe: &Probe, bytes: &[u8]) -> Verdict {
    let mut connection = probe.connect()?;
    connection.send_some(bytes);
    let response = connection.receive("GET")?;
    expect::error(&response, 431, "request head too large")?;
    connection.expect_close(CLOSE_WITHIN)
}

fn one_large_header(probe: &Probe) -> Verdict {
    let request = Request::get("/posts/1").header("X-Large", "x".repeat(OVERSIZED_HEAD_BYTES));
    too_large(probe, &request.bytes(&probe.base))
}

fn many_headers(probe: &Probe) -> Verdict {
    let mut request = Request::get("/posts/1");
    for i in 0..OVERSIZED_HEAD_BYTES / 64 {
        request = request.header(&format!("X-{i:06}"), "x".repeat(52));
    }
    too_large(probe, &request.bytes(&probe.base))
}

fn large_target(probe: &Probe) -> Verdict {
    let request = Request::get(&format!("/feed?{}", "x".repeat(OVERSIZED_HEAD_BYTES)));
    let mut connection = probe.connect()?;
    connection.send_some(request.bytes(&probe.base));
    expect_refused(&mut connection, &[414, 431], false)
}

fn large_upload(probe: &Probe) -> Verdict {
    let request = probe.create_request(" ".repeat(1024 * 1024));
    expect::error(&probe.send(&request)?, 413, "request body too large")
}

fn large_chunk_extension(probe: &Probe) -> Verdict {
    let mut connection = probe.connect()?;
    connection.send(format!(
        "{}Transfer-Encoding: chunked\r\n\r\n",
        create_head(probe)
    ))?;
    connection.send_some(format!(
        "c;x={}\r\n{{\"body\":\"x\"}}\r\n0\r\n\r\n",
        "x".repeat(OVERSIZED_HEAD_BYTES)
    ));
    expect_refused(&mut connection, &[400, 413, 431], false)
}

fn large_trailers(probe: &Probe) -> Verdict {
    let mut connection = probe.connect()?;
    connection.send(format!(
        "{}Transfer-Encoding: chunked\r\n\r\n",
        create_head(probe)
    ))?;
    connection.send_some("c\r\n{\"body\":\"x\"}\r\n0\r\n");
    connection.send_some("X-Trailer: x\r\n".repeat(OVERSIZED_HEAD_BYTES / 14));
    connection.send_some("\r\n");
    expect_refused(&mut connection, &[400, 413, 431], false)
}

/// Sixteen kilobytes that take four megabytes to say: a limit on the body alone does not bound the work.
fn padded_chunks(probe: &Probe) -> Verdict {
    let mut connection = probe.connect()?;
    connection.send(format!(
        "{}Transfer-Encoding: chunked\r\n\r\n",
        create_head(probe)
    ))?;
    let json = format!("{{\"body\":\"padded\"}}{}", " ".repeat(16_384 - 17));
    let extension = "x".repeat(250);
    for byte in json.chars() {
        connection.send_some(format!("1;{extension}\r\n{byte}\r\n"));
    }
    connection.send_some("0\r\n\r\n");
    let response = connection.receive("POST")?;
    expect::that([201, 400, 413, 431].contains(&response.status), || {
        format!("got {response}")
    })?;
    expect::json_type(&response)
}

fn timed_out(connection: &mut Connection, started: Instant, limit: Duration) -> Verdict {
    connection.patience = (limit + SLACK).saturating_sub(started.elapsed());
    let response = connection
        .receive("GET")
        .map_err(|e| format!("{e} (limit {limit:?})"))?;
    expect::error(&response, 408, "request timed out")?;
    connection.expect_close(CLOSE_WITHIN)
}

fn endless_head(probe: &Probe) -> Verdict {
    let started = Instant::now();
    let mut connection = probe.connect()?;
    connection.send("GET /feed HTTP/1.1\r\nHost: x\r\nX-Half: ")?;
    timed_out(&mut connection, started, probe.head_timeout)
}

/// A byte now and then is no reason to wait longer.
fn trickling_head(probe: &Probe) -> Verdict {
    let started = Instant::now();
    let mut connection = probe.connect()?;
    connection.send("GET /feed HTTP/1.1\r\nHost: x\r\n")?;
    while started.elapsed() + Duration::from_millis(500) < probe.head_timeout {
        std::thread::sleep(Duration::from_millis(200));
        connection
            .send("X: y\r\n")
            .map_err(|e| format!("{e}, {:?} into the head", started.elapsed()))?;
    }
    timed_out(&mut connection, started, probe.head_timeout)
}

fn endless_second_head(probe: &Probe) -> Verdict {
    let mut connection = probe.connect()?;
    serves_on(probe, &mut connection)?;
    let started = Instant::now();
    connection.send("GET /feed HTTP/1.1\r\n")?;
    timed_out(&mut connection, started, probe.head_timeout)
}

fn endless_body(probe: &Probe) -> Verdict {
    let mut connection = probe.connect()?;
    connection.send(format!(
        "{}Content-Length: 12\r\n\r\n{{\"body\"",
        create_head(probe)
    ))?;
    connection.patience = probe.body_timeout + SLACK;
    match connection.receive("POST") {
        Ok(response) => {
            expect::error(&response, 408, "request timed out")?;
            connection.expect_close(CLOSE_WITHIN)?;
        }
        Err(e) if e.starts_with("connection") => {}
        Err(e) => return Err(format!("{e} (limit {:?})", probe.body_timeout)),
    }
    expect::healthy(&probe.get("/health")?)
}

/// The time limit of a head starts with its first byte, not with the end of the request before.
fn idle_connection(probe: &Probe) -> Verdict {
    let mut connection = probe.connect()?;
    serves_on(probe, &mut connection)?;
    std::thread::sleep(probe.head_timeout + SLACK);
    serves_on(probe, &mut connection)
        .map_err(|e| format!("after {:?} idle: {e}", probe.head_timeout + SLACK))
}

fn abandoned_upload(probe: &Probe) -> Verdict {
    let before = probe.feed()?;
    for body in ["", "{\"body\":\"abandon", "{\"body\":\"abandoned\"}"] {
        for length in [
            "Content-Length: 100\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n64\r\n",
        ] {
            let mut connection = probe.connect()?;
            connection.send(format!("{}{length}{body}", create_head(probe)))?;
        }
    }
    std::thread::sleep(Duration::from_millis(300));
    expect::healthy(&probe.get("/health")?)?;
    expect::equal("the feed", probe.feed()?, before)
}

fn abandoned_head(probe: &Probe) -> Verdict {
    for part in [
        "",
        "G",
        "GET /feed HTTP/1.1\r\n",
        "GET /feed HTTP/1.1\r\nHost: x\r\n\r",
    ] {
        probe.connect()?.send(part)?;
    }
    expect::healthy(&probe.get("/health")?)
}

fn abandoned_read(probe: &Probe) -> Verdict {
    for _ in 0..50 {
        let mut connection = probe.connect()?;
        connection.send(Request::get("/feed").bytes(&probe.base).repeat(20))?;
    }
    expect::healthy(&probe.get("/health")?)?;
    expect::that(probe.feed()?.len() == 20, || "the feed is gone".into())
}
