//! What a response must be. Every function returns what is wrong in one line.

use crate::http::Response;
use crate::json::{self, Post};
use crate::token::USERNAME;
use serde_json::Value;

pub type Verdict = Result<(), String>;

pub fn that(holds: bool, otherwise: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(otherwise()) }
}

pub fn equal<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Verdict {
    that(found == expected, || {
        format!("expected {what} {expected:?}, got {found:?}")
    })
}

/// That status, with a JSON body.
pub fn status(response: &Response, status: u16) -> Verdict {
    that(response.status == status, || {
        format!("expected {status}, got {response}")
    })?;
    json_type(response)
}

pub fn json_type(response: &Response) -> Verdict {
    let found = response.header("content-type").unwrap_or("absent");
    let known = [
        "application/json",
        "application/json; charset=utf-8",
        "application/json;charset=utf-8",
    ];
    that(known.contains(&found), || {
        format!("expected content-type application/json, got {found}")
    })
}

pub fn body(response: &Response, status_code: u16, text: &str) -> Verdict {
    that(
        response.status == status_code && response.body == text.as_bytes(),
        || format!("expected {status_code} {text}, got {response}"),
    )?;
    json_type(response)
}

pub fn error(response: &Response, status: u16, message: &str) -> Verdict {
    body(response, status, &format!("{{\"error\":\"{message}\"}}"))
}

pub fn not_allowed(response: &Response, methods: &[&str]) -> Verdict {
    error(response, 405, "method not allowed")?;
    let allow = response.header("allow").unwrap_or_default();
    let allowed: Vec<&str> = allow.split(',').map(str::trim).collect();
    // HEAD comes with GET whether it is named or not.
    let fits = methods.iter().all(|m| allowed.contains(m))
        && allowed.iter().all(|m| methods.contains(m) || *m == "HEAD");
    that(fits, || {
        format!("expected Allow: {}, got {allow:?}", methods.join(", "))
    })
}

/// The reply to a create by user 1, and the post it shows.
pub fn created(response: &Response, text: &str) -> Result<Post, String> {
    status(response, 201)?;
    let post = json::post(&response.text())?;
    equal("body", post.body.as_str(), text)?;
    equal("author", post.author.as_str(), USERNAME)?;
    equal("like_count", post.like_count, 0)?;
    json::unix_ms(&post.created_at)?;
    Ok(post)
}

pub fn liked(response: &Response, post_id: u64, already: bool) -> Verdict {
    let status = if already { 200 } else { 201 };
    body(
        response,
        status,
        &format!("{{\"liked\":true,\"already_liked\":{already},\"post_id\":{post_id}}}"),
    )
}

pub fn healthy(response: &Response) -> Verdict {
    status(response, 200)?;
    let text = response.text();
    json::expect_shape(&text, json::HEALTH)?;
    let value: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    equal("status", value["status"].as_str(), Some("ok"))?;
    equal("db", value["db"].as_str(), Some("ok"))
}

/// A read of that post.
pub fn post(response: &Response, id: u64) -> Verdict {
    status(response, 200)?;
    equal("id", json::post(&response.text())?.id, id)
}

pub fn newest_first(posts: &[Post]) -> Verdict {
    // The fixed format sorts as text in the order of time.
    let ordered = posts
        .windows(2)
        .all(|pair| (&pair[0].created_at, pair[0].id) > (&pair[1].created_at, pair[1].id));
    that(ordered, || {
        "the feed is not in descending order of created_at, then id".into()
    })
}
