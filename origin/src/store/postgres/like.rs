use std::sync::Arc;

use shared::ApiError;
use sqlx::postgres::PgConnection;

use super::dispatcher::Statement;
use super::replica::Replica;
use super::row::{bigint, boolean};
use crate::store::batch::Call;

/// The database alone decides which like was the first: of equal ones, in this group or another's,
/// one row comes back.
///
/// Two workers' groups cannot block each other for ever: both insert likes in the order of
/// (post, user), and after the last of them update posts in the order of their ids.
const INSERT: &str = "WITH asked AS MATERIALIZED ( \
        SELECT new.post_id, new.user_id, \
            p.id IS NOT NULL AS post_is_known, u.id IS NOT NULL AS user_is_known \
        FROM unnest($1::bigint[], $2::bigint[]) AS new (post_id, user_id) \
        LEFT JOIN posts p ON p.id = new.post_id LEFT JOIN users u ON u.id = new.user_id \
    ), liked AS ( \
        INSERT INTO likes (post_id, user_id) \
        SELECT post_id, user_id FROM asked WHERE post_is_known AND user_is_known \
        ON CONFLICT DO NOTHING RETURNING post_id, user_id \
    ), counted AS ( \
        UPDATE posts SET like_count = like_count + new.likes \
        FROM (SELECT post_id, count(*)::integer AS likes FROM liked \
              GROUP BY post_id ORDER BY post_id) AS new \
        WHERE id = new.post_id \
    ) \
    SELECT post_id, user_id, true, true FROM liked UNION ALL \
    SELECT post_id, user_id, false, user_is_known FROM asked \
    WHERE NOT (post_is_known AND user_is_known)";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NewLike {
    pub post_id: i64,
    pub user_id: i64,
}

/// Whether it was there already.
type Already = bool;

pub struct Like {
    pub replica: Option<Arc<Replica>>,
}

impl Statement for Like {
    type Question = NewLike;
    type Answer = Already;

    const NAME: &'static str = "like";
    const MAX_QUEUED: usize = 4_096;
    const MAX_GROUP: usize = 256;
    const REPEATABLE: bool = false;

    async fn run(
        &mut self,
        connection: &mut PgConnection,
        group: &mut Vec<Call<NewLike, Already>>,
    ) -> Result<(), sqlx::Error> {
        group.sort_unstable_by_key(|call| call.question);
        let post_ids: Vec<i64> = group.iter().map(|call| call.question.post_id).collect();
        let user_ids: Vec<i64> = group.iter().map(|call| call.question.user_id).collect();
        let rows = sqlx::query(INSERT)
            .bind(&post_ids)
            .bind(&user_ids)
            .fetch_all(&mut *connection)
            .await?;
        if let Some(replica) = &self.replica {
            replica
                .committed(connection, post_ids.iter().copied())
                .await?;
        }

        // Of equal likes the first takes the row that was inserted; the others find it taken.
        let mut outcomes: Vec<Result<Already, ApiError>> = vec![Ok(true); group.len()];
        for row in &rows {
            let like = NewLike {
                post_id: bigint(row, 0)?,
                user_id: bigint(row, 1)?,
            };
            let (liked, user_is_known) = (boolean(row, 2)?, boolean(row, 3)?);
            let equal = group.partition_point(|call| call.question < like)
                ..group.partition_point(|call| call.question <= like);
            match (liked, user_is_known) {
                (true, _) => outcomes[equal.start] = Ok(false),
                (false, true) => outcomes[equal].fill(Err(ApiError::PostNotFound)),
                (false, false) => outcomes[equal].fill(Err(ApiError::UnknownUser)),
            }
        }
        for (call, outcome) in group.drain(..).zip(outcomes) {
            call.answer(outcome);
        }
        Ok(())
    }
}
