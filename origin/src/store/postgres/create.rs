use std::sync::Arc;

use shared::{ApiError, timestamp};
use sqlx::postgres::PgConnection;

use super::dispatcher::Statement;
use super::replica::Replica;
use super::row::{bigint, unix_ms};
use crate::store::batch::Call;
use crate::store::{Created, NewPost};

/// Ids rise in the order of the arrays. The time never falls behind what is stored already, so
/// that a clock that is set back puts no new post below an older one. Nobody's posts are left out.
const INSERT: &str = "INSERT INTO posts (user_id, author, body, created_at) \
    SELECT new.user_id, u.username, new.body, greatest( \
        date_trunc('milliseconds', statement_timestamp()), \
        (SELECT created_at FROM posts ORDER BY created_at DESC LIMIT 1)) \
    FROM unnest($1::bigint[], $2::text[]) AS new (user_id, body) \
    JOIN users u ON u.id = new.user_id \
    RETURNING user_id, id, created_at";

pub struct Create {
    pub replica: Option<Arc<Replica>>,
}

impl Statement for Create {
    type Question = NewPost;
    type Answer = Created;

    const NAME: &'static str = "create";
    const MAX_QUEUED: usize = 4_096;
    const MAX_GROUP: usize = 256;
    const REPEATABLE: bool = false;

    async fn run(
        &mut self,
        connection: &mut PgConnection,
        group: &mut Vec<Call<NewPost, Created>>,
    ) -> Result<(), sqlx::Error> {
        let user_ids: Vec<i64> = group.iter().map(|call| call.question.user_id).collect();
        let bodies: Vec<&str> = group
            .iter()
            .map(|call| call.question.body.as_str())
            .collect();
        let rows = sqlx::query(INSERT)
            .bind(&user_ids)
            .bind(&bodies)
            .fetch_all(&mut *connection)
            .await?;
        if let Some(replica) = &self.replica {
            let ids = rows.iter().filter_map(|row| bigint(row, 1).ok());
            replica.committed(connection, ids).await?;
        }
        let mut outcomes = Vec::with_capacity(group.len());
        let mut rows = rows.iter().peekable();
        for user_id in user_ids {
            // Rows come in the order of the calls, and all of an unknown user's are missing.
            let row = rows.next_if(|row| bigint(row, 0).is_ok_and(|author| author == user_id));
            outcomes.push(match row {
                None => Err(ApiError::UnknownUser),
                Some(row) => Ok(Created {
                    id: bigint(row, 1)?,
                    created_at: timestamp::format_ms(unix_ms(row, 2)?),
                }),
            });
        }
        if rows.next().is_some() {
            return Err(sqlx::Error::Protocol(
                "rows came back in another order".to_owned(),
            ));
        }
        for (call, outcome) in group.drain(..).zip(outcomes) {
            call.answer(outcome);
        }
        Ok(())
    }
}
