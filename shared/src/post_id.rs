//! Post and user ids.

use crate::ApiError;

/// 2^53 - 1: the largest integer that every JSON reader keeps exact.
pub const MAX_ID: i64 = (1 << 53) - 1;

/// Reads the `:id` of a path: decimal digits, leading zeros allowed, 1 to [`MAX_ID`].
pub fn parse_post_id(segment: &str) -> Result<i64, ApiError> {
    parse_id(segment).ok_or(ApiError::InvalidPostId)
}

/// A positive decimal integer without sign, up to [`MAX_ID`].
pub(crate) fn parse_id(text: &str) -> Option<i64> {
    let mut id: i64 = 0;
    for digit in text.bytes() {
        if !digit.is_ascii_digit() {
            return None;
        }
        id = id * 10 + i64::from(digit - b'0');
        // Checked each round, so the product above cannot overflow.
        if id > MAX_ID {
            return None;
        }
    }
    (id > 0).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positive_integers_pass_leading_zeros_and_all() {
        assert_eq!(parse_post_id("1"), Ok(1));
        assert_eq!(parse_post_id("000500000"), Ok(500_000));
        assert_eq!(parse_post_id("9007199254740991"), Ok(MAX_ID));
    }

    #[test]
    fn all_else_is_refused() {
        for bad in [
            "",
            "0",
            "000",
            "-1",
            "+5",
            "1.5",
            "1e3",
            "abc",
            "1a",
            " 1",
            "1 ",
            "0x10",
            "%31",
            "١",
            "9007199254740992",
            "9223372036854775808",
            "99999999999999999999999999",
        ] {
            assert_eq!(parse_post_id(bad), Err(ApiError::InvalidPostId), "{bad:?}");
        }
    }
}
