//! The 42 checks of the challenge, in its order. They count on the dataset as it was seeded, and write to it.

use crate::check::{Check, Group};
use crate::expect::{self, Verdict};
use crate::http::{Request, Response};
use crate::json::{self, Post};
use crate::probe::Probe;
use crate::token::{HEADER, claims, encode, unix_time};
use std::sync::{Arc, Mutex};

pub const GOLDEN_FEED: &str = "feed equals golden";

const FEED: &str = include_str!("../golden/feed.json");
const POST_1: &str = include_str!("../golden/post-1.json");
const POST_250000: &str = include_str!("../golden/post-250000.json");
const POST_500000: &str = include_str!("../golden/post-500000.json");

const MISSING_POST: u64 = 999_999_999;

/// The post that checks 30 to 42 speak of, once it was created.
type Created = Arc<Mutex<Option<(Response, Post)>>>;

/// Creates it if no check did so yet, so that each check also runs alone.
fn created(state: &Created, probe: &Probe) -> Result<(Response, Post), String> {
    let mut created = state.lock().map_err(|e| e.to_string())?;
    if created.is_none() {
        let text = longest_body();
        let body = serde_json::json!({ "body": format!("  \t{text}\n  ") }).to_string();
        let response = probe.send(&probe.create_request(body))?;
        let post = expect::created(&response, &text)?;
        *created = Some((response, post));
    }
    created.clone().ok_or_else(|| "no post was created".into())
}

/// 500 characters, of one to four bytes each.
fn longest_body() -> String {
    "aé€😀 <&>\"\\"
        .chars()
        .cycle()
        .take(499)
        .chain(['z'])
        .collect()
}

fn refused(probe: &Probe, request: Request, status: u16, message: &str) -> Verdict {
    expect::error(&probe.send(&request)?, status, message)
}

fn create_with(token: &str) -> Request {
    Request::post("/posts")
        .bearer(token)
        .body(r#"{"body":"never stored"}"#)
}

pub fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    reads(&mut checks);
    tokens(&mut checks);
    bodies(&mut checks);
    writes(&mut checks);
    checks
}

fn add(
    checks: &mut Vec<Check>,
    name: &str,
    run: impl Fn(&Probe) -> Verdict + Send + Sync + 'static,
) {
    checks.push(Check::new(Group::Challenge, name, run));
}

fn reads(checks: &mut Vec<Check>) {
    add(checks, GOLDEN_FEED, |probe| {
        expect::body(&probe.get("/feed")?, 200, FEED)
    });
    add(checks, "feed is application/json", |probe| {
        probe.feed().map(drop)
    });
    for (id, golden) in [(1, POST_1), (250_000, POST_250000), (500_000, POST_500000)] {
        add(checks, &format!("post {id} equals golden"), move |probe| {
            expect::body(&probe.get(&format!("/posts/{id}"))?, 200, golden)
        });
    }
    add(checks, "a post is application/json", |probe| {
        expect::post(&probe.get("/posts/1")?, 1)
    });
    add(checks, "health has the exact shape", |probe| {
        expect::healthy(&probe.get("/health")?)
    });
    add(checks, "/nope is not found", |probe| {
        refused(probe, Request::get("/nope"), 404, "not found")
    });
    for id in ["0", "-1", "abc", "1.5"] {
        add(checks, &format!("post id {id} is invalid"), move |probe| {
            refused(
                probe,
                Request::get(&format!("/posts/{id}")),
                400,
                "invalid post id",
            )
        });
    }
    add(checks, "a missing post is not found", |probe| {
        refused(
            probe,
            Request::get(&format!("/posts/{MISSING_POST}")),
            404,
            "post not found",
        )
    });
}

fn tokens(checks: &mut Vec<Check>) {
    const INVALID: &str = "invalid or expired token";
    add(checks, "create without a token", |probe| {
        refused(
            probe,
            Request::post("/posts").body(r#"{"body":"x"}"#),
            401,
            "missing bearer token",
        )
    });
    add(checks, "create with Basic", |probe| {
        let request = Request::post("/posts")
            .header("Authorization", "Basic dXNlcjpwYXNz")
            .body(r#"{"body":"x"}"#);
        refused(probe, request, 401, "missing bearer token")
    });
    add(checks, "create with a garbage token", |probe| {
        refused(probe, create_with("garbage"), 401, INVALID)
    });
    add(checks, "create with a signature of 41 bytes", |probe| {
        let token = format!(
            "{}.{}.{}",
            encode(HEADER),
            encode(claims(&[])),
            encode([7; 41])
        );
        refused(probe, create_with(&token), 401, INVALID)
    });
    add(checks, "create with alg none", |probe| {
        let token = format!(
            "{}.{}.",
            encode(r#"{"alg":"none","typ":"JWT"}"#),
            encode(claims(&[]))
        );
        refused(probe, create_with(&token), 401, INVALID)
    });
    add(checks, "create with an expired token", |probe| {
        let an_hour_ago = (unix_time().as_secs() - 3600).to_string();
        let token = probe.signer.sign(HEADER, claims(&[("exp", &an_hour_ago)]));
        refused(probe, create_with(&token), 401, INVALID)
    });
    for (name, claim, value) in [
        ("create with sub abc", "sub", "\"abc\""),
        ("create without a username", "username", ""),
    ] {
        add(checks, name, move |probe| {
            let token = probe.signer.sign(HEADER, claims(&[(claim, value)]));
            refused(probe, create_with(&token), 401, "invalid token payload")
        });
    }
    add(
        checks,
        "like abc without a token: the token comes first",
        |probe| {
            refused(
                probe,
                Request::post("/posts/abc/like"),
                401,
                "missing bearer token",
            )
        },
    );
}

fn bodies(checks: &mut Vec<Check>) {
    for (name, body) in [
        ("body empty", r#"{"body":""}"#),
        ("body of blanks", r#"{"body":"   \t\n  "}"#),
        ("body a number", r#"{"body":42}"#),
        ("body absent", r#"{"text":"x"}"#),
    ] {
        add(checks, name, move |probe| {
            refused(probe, probe.create_request(body), 400, "body is required")
        });
    }
    add(checks, "malformed JSON", |probe| {
        refused(
            probe,
            probe.create_request("{bad json"),
            400,
            "malformed JSON body",
        )
    });
    add(checks, "body of 501 characters", |probe| {
        let body = format!("{{\"body\":\"{}\"}}", "x".repeat(501));
        refused(
            probe,
            probe.create_request(body),
            400,
            "body must be at most 500 characters",
        )
    });
}

fn writes(checks: &mut Vec<Check>) {
    add(checks, "special characters round-trip, trimmed", |probe| {
        let text = "<b>\"quotes\" & 'ticks'</b> \\ / %00 \u{e9}\u{4e2d}\u{1f600} a\tb\nc ; DROP TABLE posts; --";
        let body = serde_json::json!({ "body": format!(" \u{a0}\n{text}\u{feff}\t ") }).to_string();
        let post = expect::created(&probe.send(&probe.create_request(body))?, text)?;
        expect::equal("the post read back", probe.post(post.id)?, post)
    });
    let state = Created::default();
    let mut with_post = |name: &str, fresh: bool, run: fn(&Probe, &Response, &Post) -> Verdict| {
        let state = state.clone();
        let mut check = Check::new(Group::Challenge, name, move |probe| {
            let (response, post) = created(&state, probe)?;
            run(probe, &response, &post)
        });
        check.needs_fresh_reads = fresh;
        checks.push(check);
    };
    with_post(
        "500 characters between blanks are kept exactly",
        false,
        |_, _, post| expect::equal("body", post.body.as_str(), longest_body().as_str()),
    );
    with_post(
        "the reply to a create is application/json",
        false,
        |_, response, _| expect::json_type(response),
    );
    with_post("created_at has the exact format", false, |_, _, post| {
        json::unix_ms(&post.created_at).map(drop)
    });
    with_post("created_at is within 60 s of now", false, |_, _, post| {
        let now_ms = unix_time().as_millis() as i64;
        let away_ms = (json::unix_ms(&post.created_at)? - now_ms).abs();
        expect::that(away_ms <= 60_000, || {
            format!("created_at is {away_ms} ms away from this clock")
        })
    });
    with_post("the first like is created", false, |probe, _, post| {
        expect::liked(
            &probe.like(post.id, &probe.signer.user_1())?,
            post.id,
            false,
        )
    });
    with_post("a repeated like is not", false, |probe, _, post| {
        expect::liked(&probe.like(post.id, &probe.signer.user_1())?, post.id, true)
    });
    with_post("like a missing post", false, |probe, _, _| {
        expect::error(
            &probe.like(MISSING_POST, &probe.signer.user_1())?,
            404,
            "post not found",
        )
    });
    with_post("like abc with a token", false, |probe, _, _| {
        let request = Request::post("/posts/abc/like").bearer(&probe.signer.user_1());
        refused(probe, request, 400, "invalid post id")
    });
    with_post(
        "the post reads back with one like",
        true,
        |probe, _, post| {
            let expected = Post {
                like_count: 1,
                ..post.clone()
            };
            expect::equal("the post", probe.post(post.id)?, expected)
        },
    );
    with_post("a like on seeded post 1 is counted", true, |probe, _, _| {
        expect::liked(&probe.like(1, &probe.signer.user_1())?, 1, false)?;
        expect::equal("like_count", probe.post(1)?.like_count, 12)
    });
    with_post("the feed has 20 posts", false, |probe, _, _| {
        probe.feed().map(drop)
    });
    with_post(
        "the new post is on top of the feed",
        true,
        |probe, _, post| expect::equal("id on top", probe.feed()?[0].id, post.id),
    );
    with_post(
        "its entry in the feed equals the post",
        true,
        |probe, _, post| {
            let single = probe.post(post.id)?;
            let entry = probe.feed()?.into_iter().find(|entry| entry.id == post.id);
            expect::equal("the feed's entry", entry, Some(single))
        },
    );
}
