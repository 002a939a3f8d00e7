use bytes::Bytes;
use shared::{ApiError, api, timestamp};
use sqlx::postgres::{PgConnection, PgRow};

use super::dispatcher::Statement;
use super::replica::{Lsn, ReplicaRead, Writes};
use super::row::{bigint, integer, text, unix_ms};
use crate::store::batch::Call;

const BY_IDS: &str = "SELECT id, created_at, like_count, author, body FROM posts \
    WHERE id = ANY($1)";

/// Single posts, many callers' in one query. Callers of the same post share its row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PostById {
    OnPrimary,
    /// A post that is not there may have come to the primary a moment ago, by another origin: its
    /// callers stay in the group.
    OnReplica,
}

impl Statement for PostById {
    type Question = i64;
    type Answer = Bytes;

    const NAME: &'static str = "post";
    const MAX_QUEUED: usize = 8_192;
    const MAX_GROUP: usize = 256;
    const REPEATABLE: bool = true;

    async fn run(
        &mut self,
        connection: &mut PgConnection,
        group: &mut Vec<Call<i64, Bytes>>,
    ) -> Result<(), sqlx::Error> {
        let mut ids: Vec<i64> = group.iter().map(|call| call.question).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut found: Vec<Option<Bytes>> = vec![None; ids.len()];
        let rows = sqlx::query(BY_IDS).bind(&ids).fetch_all(connection).await?;
        for row in &rows {
            let post = PostRow::of(row)?;
            if let Ok(at) = ids.binary_search(&post.id) {
                found[at] = Some(api::render_post(&post.as_post()).into());
            }
        }
        let mut left = Vec::new();
        for call in group.drain(..) {
            let post = ids.binary_search(&call.question).ok();
            match post.and_then(|at| found[at].clone()) {
                None if *self == PostById::OnReplica => left.push(call),
                post => call.answer(post.ok_or(ApiError::PostNotFound)),
            }
        }
        group.append(&mut left);
        Ok(())
    }
}

impl ReplicaRead for PostById {
    fn written(writes: &Writes, group: &[Call<i64, Bytes>]) -> Lsn {
        let written = group.iter().map(|call| writes.post(call.question));
        written.max().unwrap_or(0)
    }
}

/// A row of `id, created_at, like_count, author, body`.
pub struct PostRow<'a> {
    pub id: i64,
    created_at: String,
    like_count: i32,
    body: &'a str,
    author: &'a str,
}

impl<'a> PostRow<'a> {
    pub fn of(row: &'a PgRow) -> Result<Self, sqlx::Error> {
        Ok(PostRow {
            id: bigint(row, 0)?,
            created_at: timestamp::format_ms(unix_ms(row, 1)?),
            like_count: integer(row, 2)?,
            author: text(row, 3)?,
            body: text(row, 4)?,
        })
    }

    pub fn as_post(&self) -> api::Post<'_> {
        api::Post {
            id: self.id,
            body: self.body,
            created_at: &self.created_at,
            author: self.author,
            like_count: i64::from(self.like_count),
        }
    }
}
