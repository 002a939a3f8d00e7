//! The content hash: what a database holds, whatever its file looks like.
//!
//! Every user by id, then every post by id, then every like by post and user; each row as text,
//! `|` between its columns, a newline after it.

use std::io::Write;

use sha2::{Digest, Sha256};

#[derive(Default)]
pub struct ContentHash {
    sha256: Sha256,
    /// Rows are short; hashing them in larger pieces is faster.
    pending: Vec<u8>,
}

const PENDING_BYTES: usize = 16 * 1024;

impl ContentHash {
    pub fn user(&mut self, id: i64, username: &str, created_at: &str) {
        self.row(format_args!("{id}|{username}|{created_at}"));
    }

    pub fn post(&mut self, id: i64, user_id: i64, body: &str, created_at: &str) {
        self.row(format_args!("{id}|{user_id}|{body}|{created_at}"));
    }

    pub fn like(&mut self, user_id: i64, post_id: i64, created_at: &str) {
        self.row(format_args!("{user_id}|{post_id}|{created_at}"));
    }

    pub fn finish(mut self) -> String {
        self.sha256.update(&self.pending);
        self.sha256
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    fn row(&mut self, row: std::fmt::Arguments<'_>) {
        writeln!(self.pending, "{row}").expect("a Vec takes everything");
        if self.pending.len() >= PENDING_BYTES {
            self.sha256.update(&self.pending);
            self.pending.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_the_rows_as_lines_of_text() {
        let mut hash = ContentHash::default();
        hash.user(1, "golden_ember_1", "2026-01-01T00:00:00.000Z");
        hash.post(7, 1, "Hi | there", "2026-01-01T00:00:00.001Z");
        hash.like(1, 7, "2026-01-01T00:00:00.999Z");
        let text = "1|golden_ember_1|2026-01-01T00:00:00.000Z\n\
                    7|1|Hi | there|2026-01-01T00:00:00.001Z\n\
                    1|7|2026-01-01T00:00:00.999Z\n";
        let expected: String = Sha256::digest(text)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hash.finish(), expected);
    }
}
