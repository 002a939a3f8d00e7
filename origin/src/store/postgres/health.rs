use std::time::Duration;

use sqlx::postgres::PgConnection;

use super::dispatcher::Statement;
use crate::store::batch::Call;

/// Whether the server answers. On a connection of its own: it must be able to say so while every
/// other queue is full.
pub struct Health;

impl Statement for Health {
    type Question = ();
    type Answer = ();

    const NAME: &'static str = "health";
    const MAX_QUEUED: usize = 1_024;
    const MAX_GROUP: usize = Self::MAX_QUEUED;
    const REPEATABLE: bool = true;
    /// Whoever asks for health does not wait long.
    const LIMIT: Duration = Duration::from_secs(2);

    async fn run(
        &mut self,
        connection: &mut PgConnection,
        group: &mut Vec<Call<(), ()>>,
    ) -> Result<(), sqlx::Error> {
        sqlx::query("SELECT 1").fetch_one(connection).await?;
        for call in group.drain(..) {
            call.answer(Ok(()));
        }
        Ok(())
    }
}
