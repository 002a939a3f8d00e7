//! The reads, rendered straight from SQLite's rows.

use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, Row};
use shared::api::{self, FEED_POSTS, Post};

/// Answered from the index on (created_at, id) alone.
const NEWEST: &str = "SELECT id FROM posts ORDER BY created_at DESC, id DESC LIMIT 20";

/// The newest posts are neighbours in `posts`, and their likes in `likes_post_id_idx`: with a range
/// scan of each a feed takes 219,000 instructions, as one statement with twenty counts 265,000
/// (docs/sqlite-design.md). CROSS JOIN keeps SQLite from starting at `users`.
const POSTS_IN_RANGE: &str = "SELECT p.id, p.body, p.created_at, u.username \
    FROM posts p CROSS JOIN users u ON u.id = p.user_id WHERE p.id BETWEEN ?1 AND ?2";

/// One row a like, counted by us.
const LIKES_IN_RANGE: &str = "SELECT post_id FROM likes WHERE post_id BETWEEN ?1 AND ?2";

const POST: &str = "SELECT p.body, p.created_at, u.username, \
    (SELECT count(*) FROM likes WHERE post_id = p.id) \
    FROM posts p CROSS JOIN users u ON u.id = p.user_id WHERE p.id = ?1";

/// How far apart the newest ids may be for the range scans. Where they are further (a foreign
/// file), what lies between could be anything: then each post is a range of its own.
const MAX_ID_SPAN: i64 = 4 * FEED_POSTS as i64;

pub struct Reader {
    connection: Connection,
    /// The feed's texts, end to end: kept only for its capacity.
    texts: String,
}

#[derive(Clone, Default)]
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
        self.texts.clear();
        let lowest = newest.iter().map(|row| row.id).min().unwrap_or(0);
        let highest = newest.iter().map(|row| row.id).max().unwrap_or(-1);
        if highest.saturating_sub(lowest) < MAX_ID_SPAN {
            self.fill(&mut newest, lowest, highest)?;
        } else {
            for row in &mut newest {
                let id = row.id;
                self.fill(std::slice::from_mut(row), id, id)?;
            }
        }

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

    /// The ids of the feed, in its order.
    fn newest(&self) -> rusqlite::Result<Vec<FeedRow>> {
        let mut newest = Vec::with_capacity(FEED_POSTS);
        let mut statement = self.connection.prepare_cached(NEWEST)?;
        let mut ids = statement.query([])?;
        while let Some(row) = ids.next()? {
            newest.push(FeedRow {
                id: row.get(0)?,
                ..FeedRow::default()
            });
        }
        Ok(newest)
    }

    /// Fills in the texts and counts of those rows whose ids lie between `lowest` and `highest`.
    fn fill(&mut self, newest: &mut [FeedRow], lowest: i64, highest: i64) -> rusqlite::Result<()> {
        let texts = &mut self.texts;
        let mut keep = |text: &str| {
            let start = texts.len();
            texts.push_str(text);
            start..texts.len()
        };
        let mut statement = self.connection.prepare_cached(POSTS_IN_RANGE)?;
        let mut posts = statement.query([lowest, highest])?;
        while let Some(post) = posts.next()? {
            let id: i64 = post.get(0)?;
            if let Some(row) = newest.iter_mut().find(|row| row.id == id) {
                row.body = keep(text(post, 1)?);
                row.created_at = keep(text(post, 2)?);
                row.author = keep(text(post, 3)?);
            }
        }

        let mut statement = self.connection.prepare_cached(LIKES_IN_RANGE)?;
        let mut likes = statement.query([lowest, highest])?;
        while let Some(like) = likes.next()? {
            let post_id: i64 = like.get(0)?;
            if let Some(row) = newest.iter_mut().find(|row| row.id == post_id) {
                row.like_count += 1;
            }
        }
        Ok(())
    }
}

/// A text column without a copy.
fn text<'row>(row: &'row Row<'_>, column: usize) -> rusqlite::Result<&'row str> {
    Ok(row.get_ref(column)?.as_str()?)
}
