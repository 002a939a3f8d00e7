//! The reads, rendered straight from SQLite's rows.

use std::ops::Range;

use rusqlite::Connection;
use shared::api::{self, FEED_POSTS, Post};

use super::statement::Statement;

/// Answered from the index on (created_at, id) alone.
const NEWEST: &str = "SELECT id FROM posts ORDER BY created_at DESC, id DESC LIMIT 20";

/// The newest posts are neighbours in `posts`, and their likes in `likes_post_id_idx`: a scan of each
/// from the lowest of the ids replaces twenty seeks (docs/sqlite-design.md). It is left at the first
/// id above the highest: mostly there is none, and a bound in the statement would be compared with
/// every row. CROSS JOIN keeps SQLite from starting at `users`.
const POSTS_FROM: &str = "SELECT p.id, p.body, p.created_at, u.username \
    FROM posts p CROSS JOIN users u ON u.id = p.user_id WHERE p.id >= ?1 ORDER BY p.id";

/// One row a like, counted by us.
const LIKES_FROM: &str = "SELECT post_id FROM likes WHERE post_id >= ?1 ORDER BY post_id";

const POST: &str = "SELECT p.body, p.created_at, u.username, \
    (SELECT count(*) FROM likes WHERE post_id = p.id) \
    FROM posts p CROSS JOIN users u ON u.id = p.user_id WHERE p.id = ?1";

/// How far apart the newest ids may be for the range scans. Where they are further (a foreign
/// file), what lies between could be anything: then each post is a range of its own.
const MAX_ID_SPAN: i64 = 4 * FEED_POSTS as i64;

pub struct Reader {
    health: Statement,
    post: Statement,
    begin: Statement,
    commit: Statement,
    newest: Statement,
    posts: Statement,
    likes: Statement,
    /// The feed's texts, end to end: kept only for its capacity.
    texts: String,
    /// After its statements: it closes when they are gone.
    _connection: Connection,
}

// SAFETY: SQLite is built for several threads with a connection, and its statements, used by one at
// a time (SQLITE_THREADSAFE=2). All that can reach this connection is in here, and `&mut self`
// lets one thread in.
#[allow(unsafe_code)]
unsafe impl Send for Reader {}

#[derive(Clone, Default)]
struct FeedRow {
    id: i64,
    body: Range<usize>,
    created_at: Range<usize>,
    author: Range<usize>,
    like_count: i64,
}

impl Reader {
    pub fn new(connection: Connection) -> rusqlite::Result<Reader> {
        let prepare = |sql| Statement::prepare(&connection, sql);
        Ok(Reader {
            health: prepare("SELECT 1")?,
            post: prepare(POST)?,
            begin: prepare("BEGIN")?,
            commit: prepare("COMMIT")?,
            newest: prepare(NEWEST)?,
            posts: prepare(POSTS_FROM)?,
            likes: prepare(LIKES_FROM)?,
            texts: String::new(),
            _connection: connection,
        })
    }

    pub fn health(&mut self) -> rusqlite::Result<()> {
        self.health.execute()
    }

    pub fn post(&mut self, id: i64) -> rusqlite::Result<Option<Vec<u8>>> {
        let mut rows = self.post.query([id])?;
        if !rows.next()? {
            return Ok(None);
        }
        Ok(Some(api::render_post(&Post {
            id,
            body: rows.text(0)?,
            created_at: rows.text(1)?,
            author: rows.text(2)?,
            like_count: rows.integer(3),
        })))
    }

    pub fn feed(&mut self) -> rusqlite::Result<Vec<u8>> {
        // One snapshot for all statements: the counts belong to the posts.
        self.begin.execute()?;
        let rendered = self.feed_in_snapshot();
        self.commit.execute()?;
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
    fn newest(&mut self) -> rusqlite::Result<Vec<FeedRow>> {
        let mut newest = Vec::with_capacity(FEED_POSTS);
        let mut ids = self.newest.query([])?;
        while ids.next()? {
            newest.push(FeedRow {
                id: ids.integer(0),
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
        let mut posts = self.posts.query([lowest])?;
        while posts.next()? {
            let id = posts.integer(0);
            if id > highest {
                break;
            }
            if let Some(row) = newest.iter_mut().find(|row| row.id == id) {
                row.body = keep(posts.text(1)?);
                row.created_at = keep(posts.text(2)?);
                row.author = keep(posts.text(3)?);
            }
        }

        let mut count = |post_id: i64, likes: i64| {
            if let Some(row) = newest.iter_mut().find(|row| row.id == post_id) {
                row.like_count = likes;
            }
        };
        let (mut post_id, mut likes_of_post) = (lowest, 0);
        let mut likes = self.likes.query([lowest])?;
        while likes.next()? {
            let id = likes.integer(0);
            if id != post_id {
                count(post_id, likes_of_post);
                (post_id, likes_of_post) = (id, 0);
                if id > highest {
                    break;
                }
            }
            likes_of_post += 1;
        }
        count(post_id, likes_of_post);
        Ok(())
    }
}
