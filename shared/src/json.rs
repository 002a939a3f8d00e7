//! Reading JSON that a stranger wrote, as strictly as JavaScript's `JSON.parse` over UTF-8 does.

use serde_json::value::RawValue;

/// One valid JSON document and nothing behind it. The grammar is checked without recursion: deep
/// nesting costs no stack.
pub fn parse_document(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let document: &RawValue = serde_json::from_str(text).ok()?;
    (!has_lone_surrogate(document.get().as_bytes())).then_some(document.get())
}

/// The text of a JSON string; `None` for any other value.
pub fn string(value: &RawValue) -> Option<String> {
    value
        .get()
        .starts_with('"')
        .then(|| serde_json::from_str(value.get()).ok())?
}

/// Whether a valid JSON document has a `\u` escape of half a surrogate pair: such a string is not
/// Unicode text, and serde_json lets it pass in values that it skips. In valid JSON a backslash
/// stands only in strings, so the escapes can be found without parsing again.
fn has_lone_surrogate(json: &[u8]) -> bool {
    let code_unit = |at: usize| -> Option<u16> {
        let escape = json.get(at..at + 6)?;
        let hex = std::str::from_utf8(escape.strip_prefix(b"\\u")?).ok()?;
        u16::from_str_radix(hex, 16).ok()
    };
    let mut at = 0;
    while let Some(found) = json[at..].iter().position(|&byte| byte == b'\\') {
        at += found;
        at += match code_unit(at) {
            Some(0xd800..=0xdbff) => match code_unit(at + 6) {
                Some(0xdc00..=0xdfff) => 12,
                _ => return true,
            },
            Some(0xdc00..=0xdfff) => return true,
            Some(_) => 6,
            None => 2,
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_of_every_kind_pass_as_they_stand() {
        let deep = "[".repeat(7_000) + &"]".repeat(7_000);
        for json in [
            "{}",
            "null",
            "1e999",
            "-1e999",
            r#""\ud83d\ude00 \\ud800""#,
            &deep,
        ] {
            assert_eq!(parse_document(format!(" {json}\n").as_bytes()), Some(json));
        }
    }

    #[test]
    fn what_json_parse_refuses_is_refused() {
        for json in [
            "",
            " ",
            "{",
            "nul",
            "01",
            "[1,]",
            "{} {}",
            "'x'",
            "\u{feff}{}",
            r#""\x""#,
            "\"a\nb\"",
            r#""\ud800""#,
            r#"["\udc00"]"#,
            r#"{"\ud800\u0041":1}"#,
        ] {
            assert_eq!(parse_document(json.as_bytes()), None, "{json}");
        }
        assert_eq!(parse_document(b"\"\xff\""), None);
        assert_eq!(parse_document(b"\"\xc0\x80\""), None);
    }
}
