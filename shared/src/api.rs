//! The JSON that leaves the API. Key order is part of the contract.

use serde::Serialize;

pub const FEED_POSTS: usize = 20;

/// `content-type` of every response.
pub const CONTENT_TYPE: &str = "application/json";

#[derive(Debug, Clone)]
pub struct Post<'a> {
    pub id: i64,
    pub body: &'a str,
    pub created_at: &'a str,
    pub author: &'a str,
    pub like_count: i64,
}

/// `{"post":…}`
pub fn render_post(post: &Post<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(rendered_bytes(post) + 16);
    out.extend_from_slice(b"{\"post\":");
    write_post(&mut out, post);
    out.push(b'}');
    out
}

/// `{"posts":[…]}`
pub fn render_feed(posts: &[Post<'_>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(posts.iter().map(rendered_bytes).sum::<usize>() + 16);
    out.extend_from_slice(b"{\"posts\":[");
    for (at, post) in posts.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_post(&mut out, post);
    }
    out.extend_from_slice(b"]}");
    out
}

/// Enough for a post whose texts need no escapes.
fn rendered_bytes(post: &Post<'_>) -> usize {
    post.body.len() + post.author.len() + 128
}

/// Posts are most of what is served, so they are written by hand: a post takes about 1,200
/// instructions this way, through serde it took some 2,500 (callgrind).
fn write_post(out: &mut Vec<u8>, post: &Post<'_>) {
    let mut digits = itoa::Buffer::new();
    out.extend_from_slice(b"{\"id\":");
    out.extend_from_slice(digits.format(post.id).as_bytes());
    out.extend_from_slice(b",\"body\":");
    write_string(out, post.body);
    out.extend_from_slice(b",\"created_at\":");
    write_string(out, post.created_at);
    out.extend_from_slice(b",\"author\":");
    write_string(out, post.author);
    out.extend_from_slice(b",\"like_count\":");
    out.extend_from_slice(digits.format(post.like_count).as_bytes());
    out.push(b'}');
}

fn write_string(out: &mut Vec<u8>, text: &str) {
    if needs_escapes(text.as_bytes()) {
        serde_json::to_writer(out, text).expect("a string is always JSON");
    } else {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    }
}

/// RFC 8259, section 7: the quotation mark, the reverse solidus and the control characters.
fn needs_escapes(text: &[u8]) -> bool {
    let special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    // Whole blocks without an early end: that is what the compiler turns into vector code.
    let mut blocks = text.chunks_exact(32);
    let in_block = |block: &[u8]| block.iter().fold(false, |any, &byte| any | special(byte));
    blocks.any(in_block) || blocks.remainder().iter().any(|&byte| special(byte))
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
    fn strings_are_escaped_wherever_the_special_character_stands() {
        for special in (0u8..0x20)
            .map(char::from)
            .chain(['"', '\\', '\u{7f}', '/', 'é', '😀', '\u{2028}'])
        {
            for before in 0..70 {
                let text = format!("{}{special}{}", "x".repeat(before), "y".repeat(70 - before));
                let mut out = Vec::new();
                write_string(&mut out, &text);
                assert_eq!(
                    String::from_utf8(out).unwrap(),
                    serde_json::to_string(&text).unwrap()
                );
            }
        }
    }

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
