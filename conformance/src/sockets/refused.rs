//! Requests whose end or meaning two servers could see differently, and bytes that are no request at all: 400, and the
//! connection closed. Which words the error has is the server's choice.

use super::{check, create_head, expect_refused, get};
use crate::check::{Check, Group};
use crate::expect::{self, Verdict};
use crate::probe::Probe;

const BODY: &str = "{\"body\":\"x\"}";

/// Headers of a create whose body is `BODY`, 12 bytes, which must get 400.
const AMBIGUOUS: &[(&str, &str)] = &[
    (
        "content-length twice, the same",
        "Content-Length: 12\r\nContent-Length: 12\r\n",
    ),
    (
        "content-length twice, conflicting",
        "Content-Length: 12\r\nContent-Length: 5\r\n",
    ),
    (
        "content-length twice, conflicting, the other way",
        "Content-Length: 5\r\nContent-Length: 12\r\n",
    ),
    ("content-length as a list", "Content-Length: 12, 12\r\n"),
    (
        "content-length, then transfer-encoding",
        "Content-Length: 12\r\nTransfer-Encoding: chunked\r\n",
    ),
    (
        "transfer-encoding, then content-length",
        "Transfer-Encoding: chunked\r\nContent-Length: 12\r\n",
    ),
];

/// The same, but any refusal will do: the contract does not name them.
const UNREADABLE: &[(&str, &str)] = &[
    ("content-length with a sign", "Content-Length: +12\r\n"),
    ("content-length below zero", "Content-Length: -1\r\n"),
    ("content-length in hex", "Content-Length: 0xc\r\n"),
    (
        "content-length with a blank inside",
        "Content-Length: 1 2\r\n",
    ),
    ("content-length empty", "Content-Length: \r\n"),
    (
        "content-length beyond 64 bits",
        "Content-Length: 99999999999999999999\r\n",
    ),
    (
        "an unknown transfer-encoding",
        "Transfer-Encoding: xchunked\r\n",
    ),
    (
        "identity as transfer-encoding",
        "Transfer-Encoding: identity\r\n",
    ),
    ("an empty transfer-encoding", "Transfer-Encoding: \r\n"),
    (
        "chunked not the last",
        "Transfer-Encoding: chunked, gzip\r\n",
    ),
    ("chunked twice", "Transfer-Encoding: chunked, chunked\r\n"),
    (
        "chunked in two headers",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    ),
    (
        "chunked and a vertical tab",
        "Transfer-Encoding: \x0bchunked\r\n",
    ),
    ("a blank before the colon", "Content-Length : 12\r\n"),
    (
        "a blank before a name",
        "X: y\r\n\x0bContent-Length: 12\r\n",
    ),
    (
        "a header without a colon",
        "Content-Length: 12\r\nbroken\r\n",
    ),
    ("a header without a name", "Content-Length: 12\r\n: x\r\n"),
    (
        "a name that is no token",
        "Content-Length: 12\r\nX(Y): z\r\n",
    ),
    ("a NUL in a name", "Content-Length: 12\r\nX\0Y: z\r\n"),
    ("a NUL in a value", "Content-Length: 12\r\nX-Y: a\0b\r\n"),
    (
        "a bare CR in a value",
        "Content-Length: 12\r\nX-Y: a\rb\r\n",
    ),
    (
        "a bare CR that hides a header",
        "X-Y: a\rContent-Length: 12\r\n",
    ),
];

const BAD_CHUNKS: &[(&str, &str)] = &[
    ("no hex", "xyz\r\n"),
    ("negative", "-1\r\n"),
    ("a sign", "+c\r\n{\"body\":\"x\"}\r\n0\r\n\r\n"),
    ("beyond 64 bits", "fffffffffffffffff\r\nx"),
    ("empty", "\r\n"),
    ("empty, behind a chunk", "c\r\n{\"body\":\"x\"}\r\n\r\n"),
    ("an extension alone", ";x=y\r\n"),
    ("a prefix", "0xc\r\n{\"body\":\"x\"}\r\n0\r\n\r\n"),
    ("a bare CR in its line", "c\r{\"body\":\"x\"}\r\n0\r\n\r\n"),
    (
        "too short for its data",
        "5\r\n{\"body\":\"x\"}\r\n0\r\n\r\n",
    ),
];

const GARBAGE: &[(&str, &[u8])] = &[
    ("binary", b"\x00\x01\x02\xff\xfe\r\n\r\n"),
    (
        "a TLS hello",
        b"\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x03\r\n\r\n",
    ),
    ("text", b"hello, is anybody there?\r\n\r\n"),
    ("no version", b"GET /feed\r\n\r\n"),
    (
        "a version of nobody",
        b"GET /feed HTTP/9.9\r\nHost: x\r\n\r\n",
    ),
    (
        "a version that is none",
        b"GET /feed FTP/1.1\r\nHost: x\r\n\r\n",
    ),
    ("no method", b" /feed HTTP/1.1\r\nHost: x\r\n\r\n"),
    (
        "a method of control characters",
        b"G\x01T /feed HTTP/1.1\r\nHost: x\r\n\r\n",
    ),
    (
        "a NUL in the target",
        b"GET /fe\0ed HTTP/1.1\r\nHost: x\r\n\r\n",
    ),
    (
        "a CR in the target",
        b"GET /fe\red HTTP/1.1\r\nHost: x\r\n\r\n",
    ),
    (
        "a version in lower case",
        b"GET /feed http/1.1\r\nHost: x\r\n\r\n",
    ),
    (
        "two blanks in the target",
        b"GET /feed ? x HTTP/1.1\r\nHost: x\r\n\r\n",
    ),
];

pub fn checks() -> Vec<Check> {
    let mut checks = vec![
        check(
            "two Authorization headers: 400 and closed",
            duplicate_authorization,
        ),
        check("the HTTP/2 preface is refused", http_2_preface),
    ];
    for &(name, headers) in AMBIGUOUS {
        checks.push(create_refused(
            format!("{name}: 400 and closed"),
            headers,
            BODY,
            &[400],
        ));
    }
    for &(name, headers) in UNREADABLE {
        checks.push(create_refused(
            format!("{name}: refused and closed"),
            headers,
            BODY,
            &[400, 413, 501],
        ));
    }
    for &(name, chunks) in BAD_CHUNKS {
        checks.push(create_refused(
            format!("a chunk size, {name}: refused and closed"),
            "Transfer-Encoding: chunked\r\n",
            chunks,
            &[400, 413],
        ));
    }
    for &(name, bytes) in GARBAGE {
        checks.push(Check::new(
            Group::Sockets,
            format!("garbage, {name}: refused and closed"),
            move |probe| {
                let mut connection = probe.connect()?;
                connection.send(bytes)?;
                expect_refused(&mut connection, &[400, 414, 431, 505], true)?;
                expect::healthy(&probe.get("/health")?)
            },
        ));
    }
    checks
}

/// Behind the refused request stands a good one, which must not be answered.
fn create_refused(
    name: String,
    headers: &'static str,
    body: &'static str,
    statuses: &'static [u16],
) -> Check {
    Check::new(Group::Sockets, name, move |probe| {
        let head = format!("{}{headers}\r\n", create_head(probe));
        let mut connection = probe.connect()?;
        connection.send([head.as_bytes(), body.as_bytes(), &get(probe, "/posts/1")].concat())?;
        expect_refused(&mut connection, statuses, false)
    })
}

fn duplicate_authorization(probe: &Probe) -> Verdict {
    let token = probe.signer.user_1();
    for (target, second) in [
        ("/posts", format!("Bearer {token}")),
        ("/posts", "Basic x".into()),
        ("/posts/1/like", format!("Bearer {token}")),
        ("/posts/1/like", "Bearer x".into()),
    ] {
        for reversed in [false, true] {
            let first = format!("Bearer {token}");
            let (a, b) = if reversed {
                (&second, &first)
            } else {
                (&first, &second)
            };
            let mut connection = probe.connect()?;
            connection.send(format!(
                "POST {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: {a}\r\nX: y\r\nauthorization: {b}\r\nContent-Length: 12\r\n\r\n{BODY}",
                probe.base.authority
            ))?;
            expect_refused(&mut connection, &[400], false)?;
        }
    }
    Ok(())
}

fn http_2_preface(probe: &Probe) -> Verdict {
    let mut connection = probe.connect()?;
    connection.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")?;
    // A server may speak HTTP/2 as well, this one is asked for HTTP/1: it closes, whatever it says first.
    expect_refused(&mut connection, &[400, 405, 505], true)?;
    expect::healthy(&probe.get("/health")?)
}
