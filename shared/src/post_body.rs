//! The request body of a create: `{"body":"…"}`.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::{ApiError, json};

pub const MAX_POST_CHARS: usize = 500;

/// The largest request body that is read at all, in bytes.
pub const MAX_REQUEST_BODY_BYTES: usize = 16_384;

/// Takes the text of a new post out of a request body: valid JSON, then `body` present, a string
/// and not blank, then its length. Returns the trimmed text.
pub fn parse_post_body(request_body: &[u8]) -> Result<String, ApiError> {
    let document = json::parse_document(request_body).ok_or(ApiError::MalformedJson)?;
    if !document.starts_with('{') {
        return Err(ApiError::BodyRequired);
    }
    let BodyMember(body) = serde_json::from_str(document).map_err(|_| ApiError::MalformedJson)?;
    let text = body.and_then(json::string).ok_or(ApiError::BodyRequired)?;
    let trimmed = text.trim_matches(is_js_whitespace);
    if trimmed.is_empty() {
        return Err(ApiError::BodyRequired);
    }
    // A text of no more bytes than the limit has no more characters either.
    if trimmed.len() > MAX_POST_CHARS && trimmed.chars().count() > MAX_POST_CHARS {
        return Err(ApiError::BodyTooLong);
    }
    Ok(trimmed.to_owned())
}

/// What JavaScript's `String.prototype.trim` removes (ECMAScript `WhiteSpace` and
/// `LineTerminator`). Unlike `char::is_whitespace` it has U+FEFF and lacks U+0085.
fn is_js_whitespace(c: char) -> bool {
    matches!(
        c,
        '\u{9}'..='\u{d}'
            | ' '
            | '\u{a0}'
            | '\u{1680}'
            | '\u{2000}'..='\u{200a}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{202f}'
            | '\u{205f}'
            | '\u{3000}'
            | '\u{feff}'
    )
}

/// The last `body` member of an object, as it stands there.
struct BodyMember<'a>(Option<&'a RawValue>);

impl<'de> Deserialize<'de> for BodyMember<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = BodyMember<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut body = None;
                while let Some(key) = map.next_key::<String>()? {
                    if key == "body" {
                        body = Some(map.next_value::<&RawValue>()?);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(BodyMember(body))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: impl AsRef<[u8]>) -> Result<String, ApiError> {
        parse_post_body(json.as_ref())
    }

    #[test]
    fn the_text_is_trimmed_as_javascript_trims() {
        let blanks = "\u{9}\u{b}\u{c}\u{20}\u{a0}\u{1680}\u{2000}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}";
        let json = serde_json::json!({ "body": format!("{blanks}a b{blanks}\n\r") }).to_string();
        assert_eq!(parse(json).as_deref(), Ok("a b"));
        for kept in ["\u{85}", "\u{180e}", "\u{200b}", "\u{0}"] {
            let json = serde_json::json!({ "body": kept }).to_string();
            assert_eq!(parse(json).as_deref(), Ok(kept));
        }
    }

    #[test]
    fn length_counts_code_points_after_trimming() {
        for unit in ["x", "é", "漢", "😀"] {
            let json = format!("{{\"body\":\"  {}  \"}}", unit.repeat(500));
            assert_eq!(parse(json), Ok(unit.repeat(500)));
            let json = format!("{{\"body\":\"{}\"}}", unit.repeat(501));
            assert_eq!(parse(json), Err(ApiError::BodyTooLong));
        }
    }

    #[test]
    fn a_missing_blank_or_odd_body_is_required() {
        for json in [
            "{}",
            "null",
            "[]",
            "[{\"body\":\"x\"}]",
            "\"body\"",
            "1",
            "1.5",
            "-1e999",
            "-1",
            "true",
            r#"{"body":null}"#,
            r#"{"body":7}"#,
            r#"{"body":1e999}"#,
            r#"{"body":["x"]}"#,
            r#"{"body":{"body":"x"}}"#,
            r#"{"body":""}"#,
            r#"{"body":" \t\n\u00a0"}"#,
            r#"{"Body":"x"}"#,
            r#"{"body":"x","body":1}"#,
        ] {
            assert_eq!(parse(json), Err(ApiError::BodyRequired), "{json}");
        }
    }

    #[test]
    fn other_members_are_ignored_but_must_be_json() {
        let deep = format!(
            "{{\"x\":{}{},\"body\":\"y\"}}",
            "[".repeat(7_000),
            "]".repeat(7_000)
        );
        assert_eq!(parse(deep).as_deref(), Ok("y"));
        assert_eq!(parse(r#"{"x":1e999,"body":"y"}"#).as_deref(), Ok("y"));
        assert_eq!(
            parse(r#" {"a":[1,{"b":null}],"body":"y"} "#).as_deref(),
            Ok("y")
        );
        assert_eq!(parse(r#"{"body":1,"body":"last"}"#).as_deref(), Ok("last"));
        assert_eq!(
            parse(r#"{"b\u006fdy":"escaped key"}"#).as_deref(),
            Ok("escaped key")
        );
        assert_eq!(
            parse(r#"{"body":"\ud83d\ude00 \\u \"q\" \u0000"}"#).as_deref(),
            Ok("😀 \\u \"q\" \0")
        );
    }

    #[test]
    fn what_is_not_json_is_malformed() {
        for json in [
            "",
            " ",
            "{bad json",
            r#"{"body":"x"} x"#,
            r#"{"body":"x"}{}"#,
            r#"{"body":"x",}"#,
            r#"{"body":'x'}"#,
            r#"{"body":"x","n":01}"#,
            r#"{"body":"x","n":[1,]}"#,
            r#"{"body":"\ud800"}"#,
            r#"{"body":"x","o":"\udc00"}"#,
            r#"{"body":"x","\ud800":1}"#,
            r#"{"o":["\ud800\u0041"],"body":"x"}"#,
            r#"{"body":"\x"}"#,
            "{\"body\":\"a\nb\"}",
            "\u{feff}{\"body\":\"x\"}",
            r#"["\ud800"]"#,
            r#""\ud800""#,
            "[1",
            "nul",
        ] {
            assert_eq!(parse(json), Err(ApiError::MalformedJson), "{json}");
        }
        for bytes in [
            &b"{\"body\":\"\xff\"}"[..],
            b"{\"body\":\"x\",\"o\":\"\xc3\"}",
            b"\xff",
        ] {
            assert_eq!(parse(bytes), Err(ApiError::MalformedJson), "{bytes:?}");
        }
    }
}
