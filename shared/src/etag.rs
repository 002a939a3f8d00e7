//! `ETag` and `If-None-Match` (RFC 9110, sections 8.8.3 and 13.1.2).

use sha2::{Digest, Sha256};

/// Enough of the hash that nobody finds two bodies of one tag: what is in them, anyone may write.
const TAG_BYTES: usize = 16;

/// The strong tag of a body: equal for equal bytes, whoever computes it.
pub fn of(body: &[u8]) -> String {
    const HEX: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    let hash = Sha256::digest(body);
    let mut tag = String::with_capacity(2 * TAG_BYTES + 2);
    tag.push('"');
    for byte in &hash[..TAG_BYTES] {
        tag.push(HEX[usize::from(byte >> 4)]);
        tag.push(HEX[usize::from(byte & 0x0f)]);
    }
    tag.push('"');
    tag
}

/// Whether the value of an `If-None-Match` header names `etag`, by weak comparison.
pub fn matches(if_none_match: &str, etag: &str) -> bool {
    let etag = opaque(etag);
    // Our own tags hold no comma, so splitting at every comma can hide none of them.
    if_none_match.trim() == "*"
        || if_none_match
            .split(',')
            .any(|listed| opaque(listed) == etag)
}

fn opaque(tag: &str) -> &str {
    let tag = tag.trim();
    tag.strip_prefix("W/").unwrap_or(tag)
}

#[cfg(test)]
mod tests {
    use super::{matches, of};

    #[test]
    fn a_tag_is_quoted_hex_of_the_bodys_hash() {
        // `printf abc | sha256sum | head -c 32`
        assert_eq!(of(b"abc"), "\"ba7816bf8f01cfea414140de5dae2223\"");
        assert_ne!(of(b"abc"), of(b"abd"));
        assert!(matches(&of(b"abc"), &of(b"abc")));
    }

    #[test]
    fn one_of_a_list_or_any() {
        assert!(matches("\"a\"", "\"a\""));
        assert!(matches("\"x\", W/\"a\" ,\"y\"", "\"a\""));
        assert!(matches(" * ", "\"a\""));
        assert!(matches("W/\"a\"", "W/\"a\""));
    }

    #[test]
    fn not_one_that_is_not_listed() {
        for other in ["", "\"\"", "\"b\"", "a", "\"*\"", "\"0\"", ",", "w/\"a\""] {
            assert!(!matches(other, "\"a\""), "{other}");
        }
    }
}
