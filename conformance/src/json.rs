//! What a body looks like, and what it says.

use serde_json::Value;

pub const POST: &str = r#"{"id":#,"body":$,"created_at":$,"author":$,"like_count":#}"#;
pub const HEALTH: &str = r#"{"status":$,"db":$,"uptime_s":#}"#;
pub const ERROR: &str = r#"{"error":$}"#;

/// The text with `$` for each string value and `#` for each integer. Keys, their order, white space and every other
/// token stay, so that two bodies have one shape exactly when they have the same keys in the same order, equally compact.
pub fn shape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut shape = String::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(bytes.len());
                if bytes.get(at) == Some(&b':') {
                    shape.push_str(&text[start..at]);
                } else {
                    shape.push('$');
                }
            }
            b'-' | b'0'..=b'9' => {
                while at < bytes.len()
                    && matches!(bytes[at], b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')
                {
                    at += 1;
                }
                let number = &text[start..at];
                shape.push_str(if number.bytes().all(|b| b.is_ascii_digit()) {
                    "#"
                } else {
                    number
                });
            }
            _ => {
                at += text[at..].chars().next().map_or(1, char::len_utf8);
                shape.push_str(&text[start..at]);
            }
        }
    }
    shape
}

#[derive(Clone, Debug, PartialEq)]
pub struct Post {
    pub id: u64,
    pub body: String,
    pub created_at: String,
    pub author: String,
    pub like_count: u64,
}

impl Post {
    /// From a member of a body whose shape was checked.
    fn from_value(value: &Value) -> Option<Self> {
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        Some(Self {
            id: value["id"].as_u64()?,
            body: text("body")?,
            created_at: text("created_at")?,
            author: text("author")?,
            like_count: value["like_count"].as_u64()?,
        })
    }
}

/// The post of `{"post":…}`, if the body is exactly that.
pub fn post(text: &str) -> Result<Post, String> {
    expect_shape(text, &format!("{{\"post\":{POST}}}"))?;
    let value: Value = serde_json::from_str(text).map_err(|e| format!("{e} in {text}"))?;
    Post::from_value(&value["post"]).ok_or_else(|| format!("not a post: {text}"))
}

/// The posts of `{"posts":[…]}`, if the body is exactly that with 20 posts.
pub fn feed(text: &str) -> Result<Vec<Post>, String> {
    expect_shape(text, &format!("{{\"posts\":[{}]}}", [POST; 20].join(",")))?;
    let value: Value = serde_json::from_str(text).map_err(|e| format!("{e} in {text}"))?;
    let posts = value["posts"]
        .as_array()
        .and_then(|posts| posts.iter().map(Post::from_value).collect());
    posts.ok_or_else(|| "a member of the feed is not a post".into())
}

pub fn expect_shape(text: &str, expected: &str) -> Result<(), String> {
    let found = shape(text);
    if found == expected {
        return Ok(());
    }
    let cut = |s: &str| s.chars().take(240).collect::<String>();
    Err(format!(
        "expected a body of the shape {}, got {}",
        cut(expected),
        cut(&found)
    ))
}

/// `2025-12-31T23:59:19.409Z` as Unix milliseconds; nothing else is a timestamp here.
pub fn unix_ms(text: &str) -> Result<i64, String> {
    let malformed = || format!("created_at {text:?} is not like 2025-12-31T23:59:19.409Z");
    let pattern = "dddd-dd-ddTdd:dd:dd.dddZ";
    let fits = text.len() == pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(b, p)| {
            if p == b'd' {
                b.is_ascii_digit()
            } else {
                b == p
            }
        });
    if !fits {
        return Err(malformed());
    }
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().map_err(|_| malformed());
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second, ms) = (
        number(11, 13)?,
        number(14, 16)?,
        number(17, 19)?,
        number(20, 23)?,
    );
    if !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || hour > 23
        || minute > 59
        || second > 59
    {
        return Err(malformed());
    }
    // Days since 1970-01-01, counting years from March so that the leap day is the last of its year.
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    Ok(((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shape_keeps_keys_order_and_blanks() {
        assert_eq!(
            shape(r#"{"a":"x\"y","b":[1,22],"c":true}"#),
            r#"{"a":$,"b":[#,#],"c":true}"#
        );
        assert_eq!(shape(r#"{"b":1, "a":-2}"#), r#"{"b":#, "a":-2}"#);
        assert_eq!(shape(r#"{"a":1.5}"#), r#"{"a":1.5}"#);
        assert_eq!(shape("<é>"), "<é>");
        assert_eq!(shape(r#""open\"#), "$");
    }

    #[test]
    fn a_post_in_another_order_is_no_post() {
        let good = r#"{"post":{"id":1,"body":"b","created_at":"c","author":"a","like_count":0}}"#;
        assert_eq!(post(good).unwrap().author, "a");
        post(r#"{"post":{"body":"b","id":1,"created_at":"c","author":"a","like_count":0}}"#)
            .unwrap_err();
        post(r#"{"post": {"id":1,"body":"b","created_at":"c","author":"a","like_count":0}}"#)
            .unwrap_err();
        post(r#"{"post":{"id":"1","body":"b","created_at":"c","author":"a","like_count":0}}"#)
            .unwrap_err();
    }

    #[test]
    fn timestamps_have_three_decimals_and_z() {
        assert_eq!(unix_ms("1970-01-01T00:00:00.000Z").unwrap(), 0);
        assert_eq!(
            unix_ms("2024-02-29T12:00:00.001Z").unwrap(),
            1_709_208_000_001
        );
        assert_eq!(
            unix_ms("2026-01-01T00:00:00.000Z").unwrap(),
            1_767_225_600_000
        );
        for bad in [
            "2025-12-31T23:59:19Z",
            "2025-12-31 23:59:19.409Z",
            "2025-12-31T23:59:19.409+00:00",
            "2025-13-31T23:59:19.409Z",
        ] {
            unix_ms(bad).unwrap_err();
        }
    }
}
