//! Paths, methods, ids, query strings.

use crate::case::{Case, Expect};
use crate::http::Request;
use crate::probe::create_request;
use crate::token::Signer;

const NOT_FOUND: Expect = Expect::Error(404, "not found");
const NO_POST: Expect = Expect::Error(404, "post not found");
const INVALID_ID: Expect = Expect::Error(400, "invalid post id");
const NO_TOKEN: Expect = Expect::Error(401, "missing bearer token");

/// Not a positive integer, or above 2^53-1.
const INVALID_IDS: [&str; 22] = [
    "",
    "0",
    "00",
    "-0",
    "-1",
    "+5",
    "abc",
    "1abc",
    "1.5",
    "1.0",
    "1.",
    "1.json",
    "1e3",
    "0x1",
    "1_000",
    "1,000",
    "%201",
    "1%20",
    "9007199254740992",
    "9223372036854775807",
    "18446744073709551617",
    "1000000000000000000000000000001",
];

/// Positive integers of posts that do not exist.
const MISSING_IDS: [&str; 3] = ["999999999", "000999999999", "9007199254740991"];

pub fn cases(signer: &Signer) -> Vec<Case> {
    let mut cases = paths();
    cases.extend(methods());
    cases.extend(ids(signer));
    cases.extend(queries(signer));
    cases
}

fn paths() -> Vec<Case> {
    let mut cases = vec![
        Case::new("health answers", Request::get("/health"), Expect::Health),
        Case::new(
            "the feed is 20 posts, newest first",
            Request::get("/feed"),
            Expect::Feed,
        ),
        Case::new(
            "a seeded post answers",
            Request::get("/posts/1"),
            Expect::Post(1),
        ),
    ];
    let unknown = [
        "/",
        "/nope",
        "/Feed",
        "/feed/",
        "/feed.json",
        "/feeds",
        "/health/",
        "/healthz",
        "//feed",
        "/posts/1/",
        "/posts/1/likes",
        "/posts/1/like/",
        "/posts/1/like/2",
        "/posts/abc/def",
        "/post/1",
        "/favicon.ico",
    ];
    for path in unknown {
        cases.push(Case::new(
            format!("GET {path} is not found"),
            Request::get(path),
            NOT_FOUND,
        ));
    }
    for path in ["/nope", "/posts/1/likes", "/like"] {
        cases.push(Case::new(
            format!("POST {path} is not found, token or not"),
            Request::post(path).body("{}"),
            NOT_FOUND,
        ));
    }
    cases.push(Case::new(
        "DELETE /nope is not found",
        Request::new("DELETE", "/nope"),
        NOT_FOUND,
    ));
    cases
}

fn methods() -> Vec<Case> {
    let wrong: [(&str, &str, &'static [&'static str]); 14] = [
        ("POST", "/health", &["GET"]),
        ("POST", "/feed", &["GET"]),
        ("PUT", "/feed", &["GET"]),
        ("DELETE", "/feed", &["GET"]),
        ("PATCH", "/feed", &["GET"]),
        ("OPTIONS", "/feed", &["GET"]),
        ("POST", "/posts/1", &["GET"]),
        ("PUT", "/posts/1", &["GET"]),
        ("DELETE", "/posts/1", &["GET"]),
        ("GET", "/posts", &["POST"]),
        ("PUT", "/posts", &["POST"]),
        ("GET", "/posts/1/like", &["POST"]),
        ("PUT", "/posts/1/like", &["POST"]),
        ("DELETE", "/posts/1/like", &["POST"]),
    ];
    let mut cases: Vec<Case> = wrong
        .into_iter()
        .map(|(method, path, allow)| {
            let request = Request::new(method, path).body("");
            Case::new(
                format!("{method} {path} is not allowed"),
                request,
                Expect::NotAllowed(allow),
            )
        })
        .collect();
    for (path, status) in [
        ("/health", 200),
        ("/feed", 200),
        ("/posts/1", 200),
        ("/posts/0", 400),
        ("/posts/999999999", 404),
        ("/nope", 404),
        ("/posts", 405),
        ("/posts/1/like", 405),
    ] {
        cases.push(Case::new(
            format!("HEAD {path} is {status}"),
            Request::new("HEAD", path),
            Expect::Head(status),
        ));
    }
    cases
}

fn ids(signer: &Signer) -> Vec<Case> {
    let like = |id: &str| Request::post(&format!("/posts/{id}/like"));
    let mut cases = Vec::new();
    for id in INVALID_IDS {
        cases.push(Case::each(
            format!("post id {id:?} is invalid"),
            vec![
                Request::get(&format!("/posts/{id}")),
                like(id).bearer(&signer.user_1()),
            ],
            INVALID_ID,
        ));
    }
    for id in ["", "0", "abc", "1", "999999999"] {
        cases.push(Case::new(
            format!("like {id:?} without a token: the token comes first"),
            like(id),
            NO_TOKEN,
        ));
    }
    for id in MISSING_IDS {
        cases.push(Case::each(
            format!("post {id} does not exist"),
            vec![
                Request::get(&format!("/posts/{id}")),
                like(id).bearer(&signer.user_1()),
            ],
            NO_POST,
        ));
    }
    for id in [
        "01",
        "000000001",
        "0000000000000000000000000000000000000001",
    ] {
        cases.push(Case::new(
            format!("leading zeros, {id}, are accepted"),
            Request::get(&format!("/posts/{id}")),
            Expect::Post(1),
        ));
    }
    cases
}

fn queries(signer: &Signer) -> Vec<Case> {
    let like = |target: &str| Request::post(target).bearer(&signer.user_1());
    vec![
        Case::new(
            "health with a query",
            Request::get("/health?x=1"),
            Expect::Health,
        ),
        Case::new(
            "the feed with an empty query",
            Request::get("/feed?"),
            Expect::Feed,
        ),
        Case::new(
            "the feed with a query",
            Request::get("/feed?limit=1&page=/../posts/1"),
            Expect::Feed,
        ),
        Case::new(
            "a post with a query",
            Request::get("/posts/1?id=2"),
            Expect::Post(1),
        ),
        Case::new(
            "an unknown path with a query is not found",
            Request::get("/nope?/feed"),
            NOT_FOUND,
        ),
        Case::new(
            "an invalid id with a query",
            Request::get("/posts/abc?id=1"),
            INVALID_ID,
        ),
        Case::new(
            "an empty id with a query",
            Request::get("/posts/?1"),
            INVALID_ID,
        ),
        Case::new(
            "a like with a query",
            like("/posts/999999999/like?x=/posts/1/like"),
            NO_POST,
        ),
        Case::new(
            "a create with a query",
            {
                let mut request = create_request(signer, r#"{"body":"with a query"}"#);
                request.target = "/posts?body=other".into();
                request
            },
            Expect::created("with a query"),
        ),
    ]
}
