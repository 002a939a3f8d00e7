use bytes::Bytes;
use shared::api;
use sqlx::postgres::PgConnection;

use super::dispatcher::Statement;
use super::post::PostRow;
use super::replica::{Lsn, ReplicaRead, Writes};
use crate::store::batch::Call;

const NEWEST: &str = "SELECT id, created_at, like_count, author, body FROM posts \
    ORDER BY created_at DESC, id DESC LIMIT 20";

/// Everyone who waited when the query starts shares its answer; who comes later waits for the
/// next. So no answer is older than its request.
pub struct Feed;

impl Statement for Feed {
    type Question = ();
    type Answer = Bytes;

    const NAME: &'static str = "feed";
    const MAX_QUEUED: usize = 16_384;
    const MAX_GROUP: usize = Self::MAX_QUEUED;
    const REPEATABLE: bool = true;

    async fn run(
        &mut self,
        connection: &mut PgConnection,
        group: &mut Vec<Call<(), Bytes>>,
    ) -> Result<(), sqlx::Error> {
        let rows = sqlx::query(NEWEST).fetch_all(connection).await?;
        let posts: Vec<PostRow<'_>> = rows.iter().map(PostRow::of).collect::<Result<_, _>>()?;
        let posts: Vec<api::Post<'_>> = posts.iter().map(PostRow::as_post).collect();
        let feed = Bytes::from(api::render_feed(&posts));
        for call in group.drain(..) {
            call.answer(Ok(feed.clone()));
        }
        Ok(())
    }
}

impl ReplicaRead for Feed {
    fn written(writes: &Writes, _: &[Call<(), Bytes>]) -> Lsn {
        writes.feed()
    }
}
