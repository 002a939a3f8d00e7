//! Where a body ends, and how long a connection lives.

use super::{CLOSE_WITHIN, check, create_head, created_on, get, serves_on};
use crate::check::Check;
use crate::expect::{self, Verdict};
use crate::http::{Connection, Request};
use crate::json;
use crate::probe::Probe;
use std::time::Duration;

pub fn checks() -> Vec<Check> {
    vec![
        check(
            "chunks with extensions, trailers, upper-case and zero-padded sizes",
            chunks,
        ),
        check(
            "chunks of one byte, each in a packet of its own",
            small_chunks,
        ),
        check("a trailer is no header", trailer_is_no_header),
        check(
            "a chunked body of more than 16,384 bytes is too large",
            chunks_too_large,
        ),
        check("an empty chunked body is an empty body", no_chunks),
        check("Expect: 100-continue is told to continue", continues),
        check(
            "Expect: 100-continue with the body already there",
            continue_not_awaited,
        ),
        check(
            "Expect: 100-continue with a bad token gets its 401",
            continue_with_a_bad_token,
        ),
        check(
            "the body of a refused request is not taken for a request",
            refused_body_is_skipped,
        ),
        check(
            "the body of a GET is not taken for a request",
            get_with_a_body,
        ),
        check("Connection: close is honoured", close),
        check("HTTP/1.0 is answered and closed", http_1_0),
        check(
            "HTTP/1.0 with keep-alive is kept alive",
            http_1_0_keep_alive,
        ),
        check("HTTP/1.0 without Host is answered", http_1_0_without_host),
        check("an absolute target is answered", absolute_target),
        check(
            "an upgrade that is not offered is ignored",
            upgrade_is_ignored,
        ),
        check(
            "header names in any case, values with blanks around",
            header_spelling,
        ),
        check("a head of 4 KiB is fine", head_of_4_kib),
        check("a method of one's own is not allowed", unknown_method),
    ]
}

fn chunks(probe: &Probe) -> Verdict {
    let mut connection = probe.connect()?;
    let head = format!(
        "{}Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n",
        create_head(probe)
    );
    let body = "8;name=value\r\n{\"body\":\r\n0B;q=\"a;b\\\"c\";flag\r\n\"chunks abc\r\n000003\r\n \u{e9}\r\n2\r\n\"}\r\n0;last\r\nX-Sum: 1\r\nX-Other: 2\r\n\r\n";
    // The two-byte letter sits whole in its chunk; the next check cuts letters.
    connection.send([head.as_bytes(), body.as_bytes()].concat())?;
    created_on(probe, &mut connection, "chunks abc \u{e9}")?;
    serves_on(probe, &mut connection)
}

fn small_chunks(probe: &Probe) -> Verdict {
    let mut connection = probe.connect()?;
    connection.send(format!(
        "{}Transfer-Encoding: chunked\r\n\r\n",
        create_head(probe)
    ))?;
    for byte in "{\"body\":\"é€😀\"}".bytes() {
        connection.send([&b"1\r\n"[..], &[byte], b"\r\n"].concat())?;
        std::thread::sleep(Duration::from_micros(500));
    }
    connection.send("0\r\n\r\n")?;
    created_on(probe, &mut connection, "é€😀")?;
    serves_on(probe, &mut connection)
}

fn trailer_is_no_header(probe: &Probe) -> Verdict {
    let (host, token) = (&probe.base.authority, probe.signer.user_1());
    let mut connection = probe.connect()?;
    connection.send(format!(
        "POST /posts HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n\
         c\r\n{{\"body\":\"x\"}}\r\n0\r\nAuthorization: Bearer {token}\r\n\r\n"
    ))?;
    expect::error(&connection.receive("POST")?, 401, "missing bearer token")
}

fn chunks_too_large(probe: &Probe) -> Verdict {
    let mut connection = probe.connect()?;
    connection.send(format!(
        "{}Transfer-Encoding: chunked\r\n\r\n",
        create_head(probe)
    ))?;
    let chunk = format!("400\r\n{}\r\n", " ".repeat(0x400));
    for _ in 0..40 {
        connection.send_some(&chunk);
    }
    connection.send_some("0\r\n\r\n");
    expect::error(&connection.receive("POST")?, 413, "request body too large")
}

fn no_chunks(probe: &Probe) -> Verdict {
    let mut connection = probe.connect()?;
    connection.send(format!(
        "{}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        create_head(probe)
    ))?;
    expect::error(&connection.receive("POST")?, 400, "malformed JSON body")?;
    serves_on(probe, &mut connection)
}

fn continues(probe: &Probe) -> Verdict {
    let body = "{\"body\":\"continued\"}";
    let mut connection = probe.connect()?;
    connection.send(format!(
        "{}Expect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        create_head(probe),
        body.len()
    ))?;
    let interim = connection.receive_next("POST")?;
    expect::equal("interim status", interim.status, 100)?;
    connection.send(body)?;
    created_on(probe, &mut connection, "continued")?;
    serves_on(probe, &mut connection)
}

fn continue_not_awaited(probe: &Probe) -> Verdict {
    let body = "{\"body\":\"not awaited\"}";
    let mut connection = probe.connect()?;
    let length = body.len();
    connection.send(format!(
        "{}Expect: 100-continue\r\nContent-Length: {length}\r\n\r\n{body}",
        create_head(probe)
    ))?;
    created_on(probe, &mut connection, "not awaited")?;
    serves_on(probe, &mut connection)
}

fn continue_with_a_bad_token(probe: &Probe) -> Verdict {
    let host = &probe.base.authority;
    let mut connection = probe.connect()?;
    connection.send(format!(
        "POST /posts HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer x\r\nExpect: 100-continue\r\nContent-Length: 12\r\n\r\n"
    ))?;
    let first = connection.receive_next("POST")?;
    if first.status == 100 {
        connection.send("{\"body\":\"x\"}")?;
        return expect::error(
            &connection.receive("POST")?,
            401,
            "invalid or expired token",
        );
    }
    expect::error(&first, 401, "invalid or expired token")
}

/// Closing is as right as reading it away; taking it for the next request is not.
fn answered_or_closed(probe: &Probe, connection: &mut Connection) -> Verdict {
    match connection.receive("GET") {
        Ok(response) => {
            expect::post(&response, 1)?;
            serves_on(probe, connection)
        }
        Err(e) if e.starts_with("connection") => Ok(()),
        Err(e) => Err(e),
    }
}

fn smuggled(probe: &Probe) -> String {
    format!(
        "GET /posts/0 HTTP/1.1\r\nHost: {}\r\n\r\n",
        probe.base.authority
    )
}

fn refused_body_is_skipped(probe: &Probe) -> Verdict {
    for (target, status, message) in [
        ("/posts", 401, "missing bearer token"),
        ("/posts/1/like", 401, "missing bearer token"),
        ("/nope", 404, "not found"),
        ("/feed", 405, "method not allowed"),
    ] {
        let mut connection = probe.connect()?;
        let request = Request::post(target).body(smuggled(probe));
        connection.send([request.bytes(&probe.base), get(probe, "/posts/1")].concat())?;
        expect::error(&connection.receive("POST")?, status, message)?;
        answered_or_closed(probe, &mut connection)
            .map_err(|e| format!("after POST {target}: {e}"))?;
    }
    Ok(())
}

fn get_with_a_body(probe: &Probe) -> Verdict {
    let mut connection = probe.connect()?;
    let request = Request::get("/posts/1").body(smuggled(probe));
    connection.send([request.bytes(&probe.base), get(probe, "/posts/1")].concat())?;
    expect::post(&connection.receive("GET")?, 1)?;
    answered_or_closed(probe, &mut connection)
}

/// What stands behind the last request of a connection is not answered.
fn close(probe: &Probe) -> Verdict {
    for (target, value) in [
        ("/posts/1", "close"),
        ("/nope", "close"),
        ("/posts/1", "keep-alive, Close"),
    ] {
        let mut connection = probe.connect()?;
        let request = Request::get(target).header("Connection", value);
        connection.send([request.bytes(&probe.base), get(probe, "/posts/1")].concat())?;
        let response = connection.receive("GET")?;
        expect::equal("connection", response.header("connection"), Some("close"))?;
        connection.expect_close(CLOSE_WITHIN)?;
    }
    Ok(())
}

fn http_1_0(probe: &Probe) -> Verdict {
    let host = &probe.base.authority;
    let mut connection = probe.connect()?;
    connection.send(format!("GET /posts/1 HTTP/1.0\r\nHost: {host}\r\n\r\n"))?;
    let response = connection.receive("GET")?;
    expect::status(&response, 200)?;
    expect::equal(
        "transfer-encoding",
        response.header("transfer-encoding"),
        None,
    )?;
    expect::equal("id", json::post(&response.text())?.id, 1)?;
    connection.expect_close(CLOSE_WITHIN)
}

fn http_1_0_keep_alive(probe: &Probe) -> Verdict {
    let host = &probe.base.authority;
    let mut connection = probe.connect()?;
    for _ in 0..3 {
        connection.send(format!(
            "GET /posts/1 HTTP/1.0\r\nHost: {host}\r\nConnection: keep-alive\r\n\r\n"
        ))?;
        let response = connection.receive("GET")?;
        expect::status(&response, 200)?;
        expect::that(response.header("content-length").is_some(), || {
            "no content-length, so no way to keep alive".into()
        })?;
        let kept = response
            .header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("keep-alive"));
        expect::that(kept, || {
            format!(
                "expected connection: keep-alive, got {:?}",
                response.header("connection")
            )
        })?;
    }
    Ok(())
}

fn http_1_0_without_host(probe: &Probe) -> Verdict {
    let mut connection = probe.connect()?;
    connection.send("GET /posts/1 HTTP/1.0\r\n\r\n")?;
    expect::post(&connection.receive("GET")?, 1)
}

fn absolute_target(probe: &Probe) -> Verdict {
    let host = &probe.base.authority;
    let mut connection = probe.connect()?;
    connection.send(format!(
        "GET http://{host}/posts/1?x HTTP/1.1\r\nHost: {host}\r\n\r\n"
    ))?;
    expect::post(&connection.receive("GET")?, 1)
}

fn upgrade_is_ignored(probe: &Probe) -> Verdict {
    for upgrade in ["h2c", "websocket"] {
        let request = Request::get("/posts/1")
            .header("Connection", "Upgrade")
            .header("Upgrade", upgrade);
        let mut connection = probe.connect()?;
        connection.send(request.bytes(&probe.base))?;
        expect::post(&connection.receive("GET")?, 1)?;
        serves_on(probe, &mut connection)?;
    }
    Ok(())
}

fn header_spelling(probe: &Probe) -> Verdict {
    let (host, token) = (&probe.base.authority, probe.signer.user_1());
    let body = "{\"body\":\"spelled\"}";
    let mut connection = probe.connect()?;
    let length = body.len();
    connection.send(format!(
        "POST /posts HTTP/1.1\r\nhOST:{host}\r\nAUTHORIZATION:\t Bearer {token} \t\r\ncontent-LENGTH:  {length} \r\n\r\n{body}"
    ))?;
    created_on(probe, &mut connection, "spelled")?;
    serves_on(probe, &mut connection)
}

fn head_of_4_kib(probe: &Probe) -> Verdict {
    let request = Request::get("/posts/1").header("Cookie", format!("c={}", "x".repeat(4_000)));
    expect::post(&probe.send(&request)?, 1)
}

fn unknown_method(probe: &Probe) -> Verdict {
    for method in ["get", "FETCH", "M-SEARCH"] {
        let mut connection = probe.connect()?;
        connection.send(Request::new(method, "/feed").bytes(&probe.base))?;
        expect::not_allowed(&connection.receive(method)?, &["GET"])?;
    }
    Ok(())
}
