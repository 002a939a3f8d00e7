//! The JSON that leaves the API. Key order is part of the contract.

use serde::Serialize;

pub const FEED_POSTS: usize = 20;

/// `content-type` of every response.
pub const CONTENT_TYPE: &str = "application/json";

#[derive(Debug, Clone, Serialize)]
pub struct Post<'a> {
    pub id: i64,
    pub body: &'a str,
    pub created_at: &'a str,
    pub author: &'a str,
    pub like_count: i64,
}

/// `{"post":…}`
pub fn render_post(post: &Post<'_>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Envelope<'a> {
        post: &'a Post<'a>,
    }
    to_json(post.body.len() + 160, &Envelope { post })
}

/// `{"posts":[…]}`
pub fn render_feed(posts: &[Post<'_>]) -> Vec<u8> {
    #[derive(Serialize)]
    struct Envelope<'a> {
        posts: &'a [Post<'a>],
    }
    let capacity = posts
        .iter()
        .map(|post| post.body.len() + 160)
        .sum::<usize>()
        + 16;
    to_json(capacity, &Envelope { posts })
}

/// `{"liked":true,"already_liked":…,"post_id":…}`
pub fn render_like(post_id: i64, already_liked: bool) -> Vec<u8> {
    #[derive(Serialize)]
    struct Like {
        liked: bool,
        already_liked: bool,
        post_id: i64,
    }
    to_json(
        80,
        &Like {
            liked: true,
            already_liked,
            post_id,
        },
    )
}

/// `{"status":"ok","db":"ok","uptime_s":…}`
pub fn render_health_ok(uptime_s: u64) -> Vec<u8> {
    #[derive(Serialize)]
    struct Health {
        status: &'static str,
        db: &'static str,
        uptime_s: u64,
    }
    to_json(
        64,
        &Health {
            status: "ok",
            db: "ok",
            uptime_s,
        },
    )
}

/// `{"status":"degraded","db":"unreachable","error":…}`. The reason is shown to anyone: it must
/// carry no URL and no password.
pub fn render_health_degraded(reason: &str) -> Vec<u8> {
    #[derive(Serialize)]
    struct Health<'a> {
        status: &'static str,
        db: &'static str,
        error: &'a str,
    }
    to_json(
        96,
        &Health {
            status: "degraded",
            db: "unreachable",
            error: reason,
        },
    )
}

fn to_json(capacity_bytes: usize, value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(capacity_bytes);
    // Writing plain structs into a Vec has no way to fail.
    serde_json::to_writer(&mut out, value).expect("a plain struct is always JSON");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const POST: Post<'_> = Post {
        id: 7,
        body: "a <b> & \"c\" / é\n",
        created_at: "2025-12-31T23:59:19.409Z",
        author: "golden_ember_1",
        like_count: 3,
    };

    #[test]
    fn bodies_are_compact_and_in_key_order() {
        let post = r#"{"id":7,"body":"a <b> & \"c\" / é\n","created_at":"2025-12-31T23:59:19.409Z","author":"golden_ember_1","like_count":3}"#;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        assert_eq!(text(render_post(&POST)), format!(r#"{{"post":{post}}}"#));
        assert_eq!(
            text(render_feed(&[POST, POST])),
            format!(r#"{{"posts":[{post},{post}]}}"#)
        );
        assert_eq!(text(render_feed(&[])), r#"{"posts":[]}"#);
        assert_eq!(
            text(render_like(9, true)),
            r#"{"liked":true,"already_liked":true,"post_id":9}"#
        );
        assert_eq!(
            text(render_health_ok(12)),
            r#"{"status":"ok","db":"ok","uptime_s":12}"#
        );
        assert_eq!(
            text(render_health_degraded("gone")),
            r#"{"status":"degraded","db":"unreachable","error":"gone"}"#
        );
    }
}
