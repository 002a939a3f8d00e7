use std::collections::HashMap;

use testbed::http;

use crate::stage::{RawClient, Stage, token};

#[test]
fn every_answer_says_its_cache_control_and_only_the_feed_is_public() {
    let stage = Stage::new();
    stage.warm();
    let bearer = format!("Bearer {}", token(1));
    let authorized: &[(&str, &str)] = &[("authorization", &bearer)];
    for (method, path, headers, body, status) in [
        ("GET", "/feed", &[][..], "", 200),
        ("HEAD", "/feed", &[], "", 200),
        ("POST", "/feed", &[], "", 405),
        ("GET", "/posts/1", &[], "", 200),
        ("GET", "/posts/404", &[], "", 404),
        ("GET", "/posts/abc", &[], "", 400),
        ("PUT", "/posts/1", &[], "", 405),
        ("GET", "/health", &[], "", 200),
        ("GET", "/health?deep=1", &[], "", 200),
        ("GET", "/nope", &[], "", 404),
        ("POST", "/posts", &[], "{}", 401),
        ("POST", "/posts", authorized, "{}", 400),
        ("POST", "/posts", authorized, r#"{"body":"x"}"#, 201),
        ("POST", "/posts/1/like", authorized, "", 201),
        ("POST", "/posts/1/like", &[], "", 401),
        ("GET", "/posts", &[], "", 405),
    ] {
        let answer = http::request(method, &stage.edge.url(path), headers, body).unwrap();
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        let is_feed = path == "/feed" && status == 200;
        let wanted = if is_feed {
            "public, max-age=0"
        } else {
            "no-store"
        };
        assert_eq!(
            answer.header("cache-control"),
            Some(wanted),
            "{method} {path}"
        );
        assert_eq!(
            answer.header("content-type"),
            Some("application/json"),
            "{method} {path}"
        );
        let allow = match (status, path) {
            (405, "/posts") => Some("POST"),
            (405, _) => Some("GET,HEAD"),
            _ => None,
        };
        assert_eq!(answer.header("allow"), allow, "{method} {path}");
    }
}

#[test]
fn head_has_the_same_headers_and_no_body() {
    let stage = Stage::new();
    stage.warm();
    let get = stage.feed();
    let head = http::request("HEAD", &stage.edge.url("/feed"), &[], "").unwrap();
    assert_eq!(head.body, "");
    let named = |answer: &http::Answer| -> HashMap<String, String> {
        answer.headers.iter().cloned().collect()
    };
    assert_eq!(named(&get), named(&head));
    assert_eq!(stage.origin.hits("/feed"), 1);
}

/// What a reader sends beside the resource's name ends at the edge: none of it can change what
/// others are served.
#[test]
fn nothing_of_a_reader_reaches_the_origin_but_what_it_must_know() {
    let stage = Stage::with(|config| config.var("EDGE_KEY", "the edge's key"));
    let request = |method: &str, path: &str, more: &str, body: &str| {
        let mut client = RawClient::connect(&stage.edge);
        client.send(&format!(
            "{method} {path} HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\
             cookie: a=b\r\nx-forwarded-for: 1.2.3.4\r\nx-forwarded-host: evil.example\r\n\
             x-http-method-override: DELETE\r\nx-original-url: /posts/2\r\nx-edge-key: guess\r\n\
             forwarded: for=1.2.3.4\r\nrange: bytes=0-1\r\naccept-encoding: br\r\n\
             cf-connecting-ip: 192.0.2.7\r\nkeep-alive: 5\r\nte: trailers\r\nupgrade: h2c\r\n\
             proxy-authorization: Basic eA==\r\n{more}content-length: {}\r\n\r\n{body}",
            body.len()
        ));
        client.read_to_end()
    };
    let authorization = format!("authorization: Bearer {}\r\n", token(1));
    let posted = request("POST", "/posts", &authorization, r#" {"body":"x"} "#);
    assert!(posted.starts_with("HTTP/1.1 201"), "{posted}");
    let liked = request("POST", "/posts/007/like", &authorization, "ignored");
    assert!(liked.starts_with("HTTP/1.1 201"), "{liked}");
    // A token with a read is nobody's business.
    let read = request("GET", "/feed", &authorization, "");
    assert!(read.starts_with("HTTP/1.1 200"), "{read}");
    let single = request("GET", "/posts/007?x=1", &authorization, "");
    assert!(single.starts_with("HTTP/1.1 200"), "{single}");

    for (method, path, is_write, is_shared) in [
        ("POST", "/posts", true, false),
        ("POST", "/posts/7/like", true, false),
        ("GET", "/feed", false, true),
        ("GET", "/posts/7", false, false),
    ] {
        let arrived = stage.origin.arrived(method, path);
        assert_eq!(arrived.len(), 1, "{method} {path}");
        let headers = &arrived[0].headers;
        assert_eq!(headers["x-edge-key"], "the edge's key");
        assert_eq!(
            headers.contains_key("authorization"),
            is_write,
            "{method} {path}"
        );
        let address = headers.get("x-forwarded-for").map(String::as_str);
        assert_eq!(
            address,
            (!is_shared).then_some("192.0.2.7"),
            "{method} {path}"
        );
        for (name, value) in headers {
            let known = [
                "host",
                "x-edge-key",
                "authorization",
                "x-forwarded-for",
                "if-none-match",
                "content-length",
                "accept-encoding",
                "accept",
                "content-type",
                "user-agent",
            ];
            assert!(
                known.contains(&name.as_str()),
                "{method} {path}: {name}: {value}"
            );
            assert!(
                !value.contains("evil") && !value.contains("guess"),
                "{name}: {value}"
            );
        }
    }
    let created = &stage.origin.arrived("POST", "/posts")[0];
    assert_eq!(
        created.body, br#" {"body":"x"} "#,
        "the body arrives as it was sent"
    );
    assert_eq!(stage.origin.arrived("POST", "/posts/7/like")[0].body, b"");
}
