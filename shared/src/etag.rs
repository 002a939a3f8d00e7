//! `If-None-Match` (RFC 9110, section 13.1.2).

/// Whether the value of an `If-None-Match` header names `etag`, by weak comparison.
pub fn matches(if_none_match: &str, etag: &str) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    // Our own tags hold no comma, so splitting at every comma can hide none of them.
    if_none_match.trim() == "*"
        || if_none_match
            .split(',')
            .any(|listed| opaque(listed) == opaque(etag))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn one_of_a_list_or_any() {
        assert!(matches("\"a\"", "\"a\""));
        assert!(matches("\"x\", W/\"a\" ,\"y\"", "\"a\""));
        assert!(matches(" * ", "\"a\""));
        assert!(matches("W/\"a\"", "W/\"a\""));
    }

    #[test]
    fn not_one_that_is_not_listed() {
        for other in ["", "\"\"", "\"b\"", "a", "\"*\"", "\"0\"", ","] {
            assert!(!matches(other, "\"a\""), "{other}");
        }
    }
}
