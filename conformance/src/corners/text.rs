//! What a create makes of its text: trimming, length, U+0000, sizes.

use crate::case::{Case, Expect};
use crate::http::Request;
use crate::probe::create_request;
use crate::token::Signer;

const MALFORMED: Expect = Expect::Error(400, "malformed JSON body");
const REQUIRED: Expect = Expect::Error(400, "body is required");
const TOO_LONG: Expect = Expect::Error(400, "body must be at most 500 characters");
const TOO_LARGE: Expect = Expect::Error(413, "request body too large");
const NUL: Expect = Expect::Error(400, "body must not contain NUL");
const NO_TOKEN: Expect = Expect::Error(401, "missing bearer token");

const MAX_BODY_BYTES: usize = 16_384;

/// Exactly what JavaScript's `String.trim` takes away.
const TRIMMED: [char; 25] = [
    '\u{9}', '\u{a}', '\u{b}', '\u{c}', '\u{d}', '\u{20}', '\u{a0}', '\u{1680}', '\u{2000}',
    '\u{2001}', '\u{2002}', '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}',
    '\u{2009}', '\u{200a}', '\u{2028}', '\u{2029}', '\u{202f}', '\u{205f}', '\u{3000}', '\u{feff}',
];

/// Blank to some other definition, but not to that one.
const KEPT: [char; 12] = [
    '\u{1}', '\u{8}', '\u{e}', '\u{1c}', '\u{1f}', '\u{7f}', '\u{85}', '\u{ad}', '\u{180e}',
    '\u{200b}', '\u{2060}', '\u{fffe}',
];

pub fn cases(signer: &Signer) -> Vec<Case> {
    let mut cases = trimming(signer);
    for (name, json, expect) in lengths().into_iter().chain(nul()).chain(sizes()) {
        cases.push(Case::new(name, create_request(signer, json), expect));
    }
    cases.extend(framing(signer));
    cases
}

fn trimming(signer: &Signer) -> Vec<Case> {
    let create = |name: String, text: String, expect: Expect| {
        Case::new(
            name,
            create_request(signer, serde_json::json!({ "body": text }).to_string()),
            expect,
        )
    };
    let mut cases = Vec::new();
    for c in TRIMMED {
        let code = u32::from(c);
        cases.push(create(
            format!("U+{code:04X} is trimmed, but not inside"),
            format!("{c}{c}a{c}b{c}"),
            Expect::Created(format!("a{c}b")),
        ));
        cases.push(create(
            format!("U+{code:04X} alone is no body"),
            format!("{c}{c}"),
            REQUIRED,
        ));
    }
    for c in KEPT {
        let code = u32::from(c);
        cases.push(create(
            format!("U+{code:04X} is kept"),
            format!("{c}x{c}"),
            Expect::Created(format!("{c}x{c}")),
        ));
        cases.push(create(
            format!("U+{code:04X} alone is a body"),
            format!(" {c} "),
            Expect::Created(c.to_string()),
        ));
    }
    let all: String = TRIMMED.iter().collect();
    cases.push(create(
        "all of them around a text".into(),
        format!("{all}x{all}"),
        Expect::created("x"),
    ));
    cases.push(create("all of them alone".into(), all.clone(), REQUIRED));
    let escaped: String = TRIMMED
        .iter()
        .map(|&c| format!("\\u{:04x}", u32::from(c)))
        .collect();
    let json = format!("{{\"body\":\"{escaped}x{escaped}\"}}");
    cases.push(Case::new(
        "all of them as escapes",
        create_request(signer, json),
        Expect::created("x"),
    ));
    cases
}

fn lengths() -> Vec<(&'static str, String, Expect)> {
    let json = |text: &str| serde_json::json!({ "body": text }).to_string();
    let fits = |name, text: String| {
        let body = json(&format!(" {text} "));
        (name, body, Expect::Created(text))
    };
    let too_long = |name, text: String| (name, json(&text), TOO_LONG);
    vec![
        fits("500 characters between blanks", "x".repeat(500)),
        fits("500 characters of two bytes", "é".repeat(500)),
        fits("500 characters of three bytes", "€".repeat(500)),
        fits(
            "500 characters of four bytes, each one code point",
            "😀".repeat(500),
        ),
        fits(
            "500 code points that show as 250 letters",
            "e\u{301}".repeat(250),
        ),
        (
            "500 characters as surrogate pairs",
            format!("{{\"body\":\"{}\"}}", "\\ud83d\\ude00".repeat(500)),
            Expect::Created("😀".repeat(500)),
        ),
        fits("498 blanks inside", format!("a{}b", " ".repeat(498))),
        too_long("501 characters", "x".repeat(501)),
        too_long("501 characters of four bytes", "😀".repeat(501)),
        too_long(
            "501 characters with a blank inside",
            format!("{} {}", "x".repeat(250), "y".repeat(250)),
        ),
        too_long(
            "501 code points that show as 251 letters",
            format!("{}e", "e\u{301}".repeat(250)),
        ),
        too_long(
            "501 characters that no trimming takes",
            format!("\u{200b}{}", "x".repeat(500)),
        ),
        too_long("4,000 characters", "x".repeat(4_000)),
        (
            "501 characters as surrogate pairs",
            format!("{{\"body\":\"{}\"}}", "\\ud83d\\ude00".repeat(501)),
            TOO_LONG,
        ),
        (
            "the last of two is too long",
            format!("{{\"body\":\"x\",\"body\":\"{}\"}}", "y".repeat(501)),
            TOO_LONG,
        ),
        (
            "the first of two may be too long",
            format!("{{\"body\":\"{}\",\"body\":\"short\"}}", "y".repeat(501)),
            Expect::created("short"),
        ),
    ]
}

fn nul() -> Vec<(&'static str, String, Expect)> {
    let text = |value: &str| format!("{{\"body\":\"{value}\"}}");
    let stored = |value: &str| Expect::per_store(Expect::created(value), NUL);
    let refused = || Expect::per_store(REQUIRED, NUL);
    vec![
        ("U+0000 inside", text("a\\u0000b"), stored("a\0b")),
        ("U+0000 at the end", text("a\\u0000"), stored("a\0")),
        (
            "many U+0000 inside",
            text("a\\u0000\\u0000\\u0000é\\u0000b"),
            stored("a\0\0\0é\0b"),
        ),
        ("U+0000 at the start", text("\\u0000a"), refused()),
        ("U+0000 behind blanks", text(" \\u0000a"), refused()),
        ("U+0000 alone", text("\\u0000"), refused()),
        (
            "U+0000 in another member",
            "{\"x\":\"\\u0000\",\"\\u0000\":1,\"body\":\"beside NUL\"}".into(),
            Expect::created("beside NUL"),
        ),
        (
            "the text of a NUL escape",
            text("a\\\\u0000b"),
            Expect::created("a\\u0000b"),
        ),
    ]
}

fn sizes() -> Vec<(&'static str, String, Expect)> {
    let padded = |bytes: usize| {
        let json = "{\"body\":\"padded\"}";
        format!("{json}{}", " ".repeat(bytes - json.len()))
    };
    vec![
        (
            "a body of 16,384 bytes",
            padded(MAX_BODY_BYTES),
            Expect::created("padded"),
        ),
        (
            "a body of 16,385 bytes",
            padded(MAX_BODY_BYTES + 1),
            TOO_LARGE,
        ),
        ("a body of 100,000 bytes", padded(100_000), TOO_LARGE),
        (
            "a body of 16,385 bytes that is no JSON",
            "x".repeat(MAX_BODY_BYTES + 1),
            TOO_LARGE,
        ),
        (
            "a body of 16,384 bytes that is no JSON",
            "x".repeat(MAX_BODY_BYTES),
            MALFORMED,
        ),
    ]
}

/// What the head says about the body does not matter.
fn framing(signer: &Signer) -> Vec<Case> {
    let create = || Request::post("/posts").bearer(&signer.user_1());
    let json = "{\"body\":\"any type\"}";
    let mut cases = Vec::new();
    for content_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin1",
        "multipart/form-data",
        "?",
        "",
    ] {
        let request = create().header("Content-Type", content_type).body(json);
        cases.push(Case::new(
            format!("content-type {content_type:?}"),
            request,
            Expect::created("any type"),
        ));
    }
    cases.push(Case::new(
        "no content-type",
        create().body(json),
        Expect::created("any type"),
    ));
    cases.push(Case::new(
        "neither content-type nor content-length, no body",
        create(),
        MALFORMED,
    ));
    cases.push(Case::each(
        "the token comes before the body",
        vec![
            Request::post("/posts"),
            Request::post("/posts").body("{bad json"),
            Request::post("/posts").body("{\"body\":\"\"}"),
            Request::post("/posts").body(format!("{{\"body\":\"{}\"}}", "x".repeat(501))),
        ],
        NO_TOKEN,
    ));
    let like = || Request::post("/posts/999999999/like").bearer(&signer.user_1());
    cases.push(Case::each(
        "a like ignores its body",
        vec![
            like(),
            like().body(""),
            like().body("{bad json"),
            like()
                .header("Content-Type", "application/json")
                .body("\0\u{ff}"),
            like()
                .header("Content-Type", "application/json")
                .body("{\"body\":1}"),
        ],
        Expect::Error(404, "post not found"),
    ));
    cases
}
