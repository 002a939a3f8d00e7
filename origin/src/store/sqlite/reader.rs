//! The reads, rendered straight from SQLite's rows.

use std::ops::Range;

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row};
use shared::api::{self, FEED_POSTS, Post};

/// The newest posts by the index on (created_at, id). CROSS JOIN keeps SQLite from starting at
/// `users`.
const NEWEST: &str = "SELECT p.id, p.body, p.created_at, u.username \
    FROM posts p CROSS JOIN users u ON u.id = p.user_id \
    ORDER BY p.created_at DESC, p.id DESC LIMIT 20";

/// Neighbouring posts' likes are neighbours in `likes_post_id_idx`: one range scan costs less
/// than half of twenty seeks.
const LIKES_IN_RANGE: &str = "SELECT post_id, count(*) FROM likes \
    WHERE post_id BETWEEN ?1 AND ?2 GROUP BY post_id";

const LIKES_OF_POST: &str = "SELECT count(*) FROM likes WHERE post_id = ?1";

const POST: &str = "SELECT p.body, p.created_at, u.username, \
    (SELECT count(*) FROM likes WHERE post_id = p.id) \
    FROM posts p CROSS JOIN users u ON u.id = p.user_id WHERE p.id = ?1";

/// The newest posts' ids span about as many numbers as there are posts. Where they do not (a
/// foreign file), the posts between could carry any number of likes: then each is counted alone.
const MAX_ID_SPAN: i64 = 4 * FEED_POSTS as i64;

pub struct Reader {
    connection: Connection,
    /// The feed's texts, end to end: kept only for its capacity.
    texts: String,
}

struct FeedRow {
    id: i64,
    body: Range<usize>,
    created_at: Range<usize>,
    author: Range<usize>,
    like_count: i64,
}

impl Reader {
    pub fn new(connection: Connection) -> Reader {
        Reader {
            connection,
            texts: String::new(),
        }
    }

    pub fn health(&self) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("SELECT 1")?
            .query_row([], |_| Ok(()))
    }

    pub fn post(&self, id: i64) -> rusqlite::Result<Option<Vec<u8>>> {
        self.connection
            .prepare_cached(POST)?
            .query_row([id], |row| {
                Ok(api::render_post(&Post {
                    id,
                    body: text(row, 0)?,
                    created_at: text(row, 1)?,
                    author: text(row, 2)?,
                    like_count: row.get(3)?,
                }))
            })
            .optional()
    }

    pub fn feed(&mut self) -> rusqlite::Result<Vec<u8>> {
        // One snapshot for all statements: the counts belong to the posts.
        self.connection.prepare_cached("BEGIN")?.execute([])?;
        let rendered = self.feed_in_snapshot();
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        rendered
    }

    fn feed_in_snapshot(&mut self) -> rusqlite::Result<Vec<u8>> {
        let mut newest = self.newest()?;
        self.count_likes(&mut newest)?;
        let posts: Vec<Post<'_>> = newest
            .into_iter()
            .map(|row| Post {
                id: row.id,
                body: &self.texts[row.body],
                created_at: &self.texts[row.created_at],
                author: &self.texts[row.author],
                like_count: row.like_count,
            })
            .collect();
        Ok(api::render_feed(&posts))
    }

    fn newest(&mut self) -> rusqlite::Result<Vec<FeedRow>> {
        self.texts.clear();
        let mut keep = |text: &str| {
            let start = self.texts.len();
            self.texts.push_str(text);
            start..self.texts.len()
        };
        let mut newest = Vec::with_capacity(FEED_POSTS);
        let mut statement = self.connection.prepare_cached(NEWEST)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            newest.push(FeedRow {
                id: row.get(0)?,
                body: keep(text(row, 1)?),
                created_at: keep(text(row, 2)?),
                author: keep(text(row, 3)?),
                like_count: 0,
            });
        }
        Ok(newest)
    }

    fn count_likes(&self, newest: &mut [FeedRow]) -> rusqlite::Result<()> {
        let Some(lowest) = newest.iter().map(|row| row.id).min() else {
            return Ok(());
        };
        let highest = newest.iter().map(|row| row.id).max().unwrap_or(lowest);

        if highest.saturating_sub(lowest) >= MAX_ID_SPAN {
            let mut count: CachedStatement<'_> = self.connection.prepare_cached(LIKES_OF_POST)?;
            for row in newest {
                row.like_count = count.query_row([row.id], |count| count.get(0))?;
            }
            return Ok(());
        }

        let mut counts = self.connection.prepare_cached(LIKES_IN_RANGE)?;
        let mut counts = counts.query([lowest, highest])?;
        while let Some(count) = counts.next()? {
            let post_id: i64 = count.get(0)?;
            if let Some(row) = newest.iter_mut().find(|row| row.id == post_id) {
                row.like_count = count.get(1)?;
            }
        }
        Ok(())
    }
}

/// A text column without a copy.
fn text<'row>(row: &'row Row<'_>, column: usize) -> rusqlite::Result<&'row str> {
    Ok(row.get_ref(column)?.as_str()?)
}
