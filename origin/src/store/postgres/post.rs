use bytes::Bytes;
use shared::{ApiError, api, timestamp};
use sqlx::postgres::{PgConnection, PgRow};

use super::dispatcher::Statement;
use super::row::{bigint, integer, text, unix_ms};
use crate::store::batch::Call;

const BY_IDS: &str = "SELECT id, created_at, like_count, author, body FROM posts \
    WHERE id = ANY($1)";

/// Single posts, many callers' in one query. Callers of the same post share its row.
pub struct PostById;

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
        for call in group.drain(..) {
            let post = ids.binary_search(&call.question).ok();
            let post = post.and_then(|at| found[at].clone());
            call.answer(post.ok_or(ApiError::PostNotFound));
        }
        Ok(())
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
