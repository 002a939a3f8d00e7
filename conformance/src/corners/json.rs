//! Whether a create's body is JSON, and where in it the text is.

use crate::case::{Case, Expect};
use crate::probe::create_request;
use crate::token::Signer;

const MALFORMED: Expect = Expect::Error(400, "malformed JSON body");
const REQUIRED: Expect = Expect::Error(400, "body is required");

pub fn cases(signer: &Signer) -> Vec<Case> {
    let create = |name: String, json: &[u8], expect: Expect| {
        Case::new(name, create_request(signer, json), expect)
    };
    let mut cases = Vec::new();
    for (name, json) in malformed() {
        cases.push(create(format!("malformed JSON: {name}"), &json, MALFORMED));
    }
    for (name, json) in required() {
        cases.push(create(
            format!("body is required: {name}"),
            json.as_bytes(),
            REQUIRED,
        ));
    }
    for (name, json, text) in stored() {
        cases.push(create(
            format!("stored: {name}"),
            json.as_bytes(),
            Expect::Created(text),
        ));
    }
    cases
}

/// A good body with one more member, which holds this.
fn beside(value: impl AsRef<[u8]>) -> Vec<u8> {
    [
        &b"{\"other\":"[..],
        value.as_ref(),
        b",\"body\":\"beside\"}",
    ]
    .concat()
}

fn malformed() -> Vec<(String, Vec<u8>)> {
    let whole: [(&str, &[u8]); 30] = [
        ("empty", b""),
        ("blanks alone", b" \r\n\t "),
        ("{bad json", b"{bad json"),
        ("no end", b"{\"body\":\"x\""),
        ("no end of the string", b"{\"body\":\"x}"),
        ("no value", b"{\"body\":}"),
        ("no colon", b"{\"body\" \"x\"}"),
        ("two colons", b"{\"body\"::\"x\"}"),
        ("an open brace alone", b"{"),
        ("a closing brace more", b"{\"body\":\"x\"}}"),
        ("the wrong bracket", b"{\"body\":\"x\"]"),
        ("a word behind it", b"{\"body\":\"x\"} x"),
        ("a second document", b"{\"body\":\"x\"}{\"body\":\"y\"}"),
        ("a NUL behind it", b"{\"body\":\"x\"}\0"),
        ("a form feed behind it", b"{\"body\":\"x\"}\x0c"),
        ("a no-break space before it", b"\xc2\xa0{\"body\":\"x\"}"),
        ("a comma at the end", b"{\"body\":\"x\",}"),
        ("a comma at the start", b"{,\"body\":\"x\"}"),
        ("single quotes", b"{'body':'x'}"),
        ("a key without quotes", b"{body:\"x\"}"),
        ("a comment", b"{\"body\":\"x\"/* c */}"),
        ("a raw tab in a string", b"{\"body\":\"a\tb\"}"),
        ("a raw line end in a string", b"{\"body\":\"a\nb\"}"),
        ("a raw NUL in a string", b"{\"body\":\"a\0b\"}"),
        ("a form", b"body=x"),
        ("a bare word", b"body"),
        ("invalid UTF-8 alone", b"\xff"),
        ("UTF-16", b"{\0\"\0b\0o\0d\0y\0\"\0:\0\"\0x\0\"\0}\0"),
        ("a byte behind a top-level string", b"\"x\"\""),
        ("a byte behind null", b"nullx"),
    ];
    let mut cases: Vec<(String, Vec<u8>)> = whole
        .map(|(name, json)| (name.to_owned(), json.to_vec()))
        .into();
    let texts: [(&str, &[u8]); 18] = [
        ("a lone high surrogate", b"\\ud83d"),
        ("a lone low surrogate", b"\\ude00"),
        ("surrogates in the wrong order", b"\\ude00\\ud83d"),
        ("a high surrogate before another escape", b"\\ud83d\\u0041"),
        ("two high surrogates", b"\\ud83d\\ud83d\\ude00"),
        ("a high surrogate before text", b"\\ud83dx"),
        ("an unknown escape", b"\\x41"),
        ("an escape of an apostrophe", b"\\'"),
        ("a short unicode escape", b"\\u12"),
        ("a unicode escape that is no hex", b"\\u00zz"),
        ("invalid UTF-8, ff", b"\xff"),
        ("invalid UTF-8, a lone continuation", b"\x80"),
        ("invalid UTF-8, cut short", b"\xe2\x82"),
        ("invalid UTF-8, overlong", b"\xc0\xaf"),
        ("invalid UTF-8, overlong NUL", b"\xc0\x80"),
        ("invalid UTF-8, an encoded surrogate", b"\xed\xa0\x80"),
        ("invalid UTF-8, above 10ffff", b"\xf4\x90\x80\x80"),
        ("Latin-1", b"caf\xe9"),
    ];
    for (name, text) in texts {
        let quoted = [b"\"", text, b"\""].concat();
        cases.push((
            format!("{name} in the body"),
            [&b"{\"body\":"[..], &quoted, b"}"].concat(),
        ));
        cases.push((format!("{name} in another member"), beside(&quoted)));
        cases.push((
            format!("{name} in a key"),
            [&b"{"[..], &quoted, b":1,\"body\":\"x\"}"].concat(),
        ));
        cases.push((
            format!("{name} deep inside"),
            beside([&b"[{\"a\":[null,"[..], &quoted, b"]}]"].concat()),
        ));
    }
    // Faults in a member that nobody reads are faults all the same.
    for value in [
        "01",
        "-01",
        "+1",
        "1.",
        ".5",
        "1.e1",
        "1e",
        "1e+",
        "-",
        "--1",
        "0x10",
        "1_000",
        "1,",
        "NaN",
        "Infinity",
        "-Infinity",
        "undefined",
        "True",
        "tru",
        "nulll",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[",
        "]",
        "[}",
        "{]",
        "{\"a\"}",
        "{\"a\":1,}",
        "{1:2}",
        "\"",
        "'x'",
        "`x`",
    ] {
        cases.push((format!("another member is {value}"), beside(value)));
    }
    let deep = "[".repeat(5_000);
    cases.push((
        "5,000 nested arrays without an end".into(),
        deep.clone().into_bytes(),
    ));
    cases.push((
        "5,000 nested arrays in another member, one bracket short".into(),
        beside(format!("{deep}{}", "]".repeat(4_999))),
    ));
    cases.push((
        "a fault under 5,000 nested arrays".into(),
        beside(format!("{deep}01{}", "]".repeat(5_000))),
    ));
    cases.push((
        "a lone surrogate under 5,000 nested arrays".into(),
        beside(format!("{deep}\"\\ud800\"{}", "]".repeat(5_000))),
    ));
    cases.push((
        "malformed, and longer than 500 characters".into(),
        format!("{{\"body\":\"{}\",}}", "x".repeat(600)).into_bytes(),
    ));
    cases.push((
        "an empty body is fine until the fault behind it".into(),
        b"{\"body\":\"\",\"x\":01}".to_vec(),
    ));
    cases
}

fn required() -> Vec<(&'static str, String)> {
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let mut cases: Vec<(&str, String)> = [
        ("null at the top", "null"),
        ("an array at the top", "[]"),
        (
            "an array that holds the object at the top",
            "[{\"body\":\"x\"}]",
        ),
        ("a string at the top", "\"x\""),
        ("the string body at the top", "\"body\""),
        ("a number at the top", "1"),
        ("a number beyond every float at the top", "-1e999"),
        ("true at the top", "true"),
        ("false at the top", " false "),
        ("an empty object", "{}"),
        ("another member alone", "{\"text\":\"x\"}"),
        ("Body", "{\"Body\":\"x\"}"),
        ("a blank behind the key", "{\"body \":\"x\"}"),
        ("an empty key", "{\"\":\"x\"}"),
        ("body one level down", "{\"post\":{\"body\":\"x\"}}"),
        ("a null as body", "{\"body\":null}"),
        ("a number as body", "{\"body\":42}"),
        ("a number beyond every float as body", "{\"body\":1e999}"),
        ("a boolean as body", "{\"body\":true}"),
        ("an array as body", "{\"body\":[\"x\"]}"),
        ("an object as body", "{\"body\":{\"body\":\"x\"}}"),
        ("an empty string as body", "{\"body\":\"\"}"),
        ("blanks", "{\"body\":\"   \\t\\r\\n  \"}"),
        (
            "blanks as escapes",
            "{\"body\":\"\\u0020\\u00a0\\u3000\\ufeff\\u2028\"}",
        ),
        ("the last of two is a number", "{\"body\":\"x\",\"body\":1}"),
        (
            "the last of two is blank",
            "{\"body\":\"x\",\"body\":\" \"}",
        ),
        (
            "the last of two is null, its key escaped",
            "{\"body\":\"x\",\"b\\u006fdy\":null}",
        ),
        ("501 blanks", "{\"body\":\"BLANKS\"}"),
    ]
    .map(|(name, json)| (name, json.replace("BLANKS", &" ".repeat(501))))
    .into();
    cases.push(("5,000 nested arrays at the top", deep.clone()));
    cases.push((
        "5,000 nested arrays as body",
        format!("{{\"body\":{deep}}}"),
    ));
    cases
}

/// Name, JSON, the text that is stored.
fn stored() -> Vec<(String, String, String)> {
    let text = |value: &str| format!("{{\"body\":\"{value}\"}}");
    let mut cases: Vec<(String, String, String)> = [
        (
            "the last of two wins",
            "{\"body\":\"first\",\"body\":\"second\"}",
            "second",
        ),
        (
            "the last of two wins over a number",
            "{\"body\":1,\"body\":\"second\"}",
            "second",
        ),
        (
            "the last of two wins, its key escaped",
            "{\"body\":\"first\",\"b\\u006fdy\":\"second\"}",
            "second",
        ),
        (
            "the last of two wins over an escaped key",
            "{\"\\u0062\\u006F\\u0064\\u0079\":\"first\",\"body\":\"second\"}",
            "second",
        ),
        (
            "an escaped key",
            "{\"b\\u006fdy\":\"escaped key\"}",
            "escaped key",
        ),
        (
            "white space everywhere",
            "\r\n\t { \"body\" \n:\t\"spaced\" \r}\n ",
            "spaced",
        ),
        (
            "every escape",
            "{\"body\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC|\"}",
            "\"\\/\u{8}\u{c}\n\r\tAé€|",
        ),
        (
            "a surrogate pair",
            "{\"body\":\"\\ud83d\\ude00\\uD83D\\uDE00\"}",
            "😀😀",
        ),
        (
            "raw text of every length of UTF-8",
            "{\"body\":\"aé€😀\u{10ffff}\"}",
            "aé€😀\u{10ffff}",
        ),
        (
            "characters that HTML minds",
            "{\"body\":\"<script>&amp;</script> '\\\"/\"}",
            "<script>&amp;</script> '\"/",
        ),
        (
            "line separators inside",
            "{\"body\":\"a\u{2028}b\u{2029}c\"}",
            "a\u{2028}b\u{2029}c",
        ),
        (
            "control characters as escapes",
            "{\"body\":\"a\\u0001\\u000b\\u001b\\u001f\\u007fb\"}",
            "a\u{1}\u{b}\u{1b}\u{1f}\u{7f}b",
        ),
        (
            "non-characters",
            "{\"body\":\"a\\ufffe\\uffff\u{fdd0}b\"}",
            "a\u{fffe}\u{ffff}\u{fdd0}b",
        ),
        (
            "no normalisation",
            "{\"body\":\"e\u{301} \u{e9} \u{212b}\"}",
            "e\u{301} \u{e9} \u{212b}",
        ),
        (
            "right-to-left and joiners",
            "{\"body\":\"\u{5e9}\u{202e}x\u{202c} 👩\u{200d}👧\"}",
            "\u{5e9}\u{202e}x\u{202c} 👩\u{200d}👧",
        ),
        (
            "SQL",
            "{\"body\":\"'); DROP TABLE posts; -- $1 ?1 :a @b\"}",
            "'); DROP TABLE posts; -- $1 ?1 :a @b",
        ),
        (
            "what COPY minds",
            "{\"body\":\"\\\\N \\\\. a\\tb\\\\\"}",
            "\\N \\. a\tb\\",
        ),
        ("one character", "{\"body\":\"x\"}", "x"),
    ]
    .map(|(name, json, text)| (name.to_owned(), json.to_owned(), text.to_owned()))
    .into();
    for escape in ["null", "{}", "[]", "0"] {
        cases.push((format!("the text {escape}"), text(escape), escape.into()));
    }
    let deep_arrays = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let deep_objects = format!("{}1{}", "{\"a\":".repeat(2_500), "}".repeat(2_500));
    for (name, value) in [
        ("1e999", "1e999"),
        ("-1e999", "-1e999"),
        ("a small exponent", "1e-999"),
        ("40 digits", "1234567890123456789012345678901234567890"),
        ("40 decimals", "0.1234567890123456789012345678901234567890"),
        ("minus zero", "-0"),
        ("an exponent with a sign", "-0.0E+00"),
        ("numbers in an array", "[0,1E2,1e+2,-1.5e-3,1e400]"),
        (
            "nested",
            "{\"body\":\"inner\",\"a\":[{},[],\"\",null,true,false]}",
        ),
        ("a string with escapes", "\"\\ud83d\\ude00\\u0000\\n\""),
        ("5,000 nested arrays", &deep_arrays),
        ("2,500 nested objects", &deep_objects),
    ] {
        let json = String::from_utf8(beside(value)).expect("all of it is text");
        cases.push((format!("beside {name}"), json, "beside".into()));
    }
    for key in [
        "__proto__",
        "id",
        "author",
        "created_at",
        "like_count",
        "user_id",
    ] {
        let json = format!("{{\"{key}\":\"x\",\"body\":\"beside {key}\"}}");
        cases.push((format!("beside {key}"), json, format!("beside {key}")));
    }
    let many: String = (0..1_000).map(|i| format!("\"k{i}\":{i},")).collect();
    cases.push((
        "beside 1,000 members".into(),
        format!("{{{many}\"body\":\"many\"}}"),
        "many".into(),
    ));
    cases
}
