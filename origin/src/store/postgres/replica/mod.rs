//! Reads from a streaming replica, while it keeps up with the primary.
//!
//! What a read needs is a position in the primary's log. The monitor says which one makes the
//! replica recent enough, and until when; the writes of this origin say which one shows them. A
//! reader's connection asks the replica how far it has replayed, on that very connection, and only
//! when it does not know yet that this is far enough. Whatever stands in the way of an answer (lag,
//! a conflict, silence, a lost connection), the call goes on to the primary and its caller notices
//! nothing but the time.

mod lag;
mod monitor;
mod reader;
mod stats;
mod writes;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use shared::ApiError;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::sync::watch;
use tokio::time::timeout;

pub use self::monitor::Monitor;
pub use self::reader::{ReplicaRead, start};
pub use self::stats::{ReplicaStats, Shown, State};
pub use self::writes::Writes;
use super::open;
use crate::store::batch::Callers;

/// A position in the primary's log, in bytes.
pub type Lsn = i64;

/// How long a caller waits for the replica before the primary is asked instead.
const ANSWER_LIMIT: Duration = Duration::from_millis(250);
/// The replica itself gives up a little earlier, which keeps the connection.
const STATEMENT_LIMIT: Duration = Duration::from_millis(200);

/// When the primary goes, the monitor finds out a moment after the first reader; when it is back,
/// a moment before the last connection. A read that falls between is asked again.
const RETRY_LIMIT: Duration = Duration::from_secs(1);
const RETRY_PAUSE: Duration = Duration::from_millis(25);

/// All that the primary has on disk, and so all that a replica can be sent. Asked after a commit,
/// it covers that commit.
const FLUSHED: &str = "SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint";

/// What is configured.
#[derive(Debug, Clone)]
pub struct Settings {
    pub options: PgConnectOptions,
    /// The longest that a read's answer may be behind the primary when the read is sent.
    pub lag_bound: Duration,
    /// How long reads go on from a replica that kept up when the primary went away.
    pub alone_limit: Duration,
}

/// What the workers and the monitor know of the replica.
pub struct Replica {
    options: Arc<PgConnectOptions>,
    standing: watch::Sender<Standing>,
    writes: Writes,
    stats: Arc<ReplicaStats>,
}

/// Whether the replica may be read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Unfit {
        primary_answers: bool,
    },
    /// Whoever has replayed `floor` is recent enough until then.
    KeepsUp {
        floor: Lsn,
        until: Instant,
    },
    /// The primary is away; until then reads go on from the replica as it is. Not once this origin
    /// has had more than so many writes acknowledged: then the primary is back.
    Alone {
        writes: u64,
        until: Instant,
        /// And did not only stop answering: then nobody is left to wait for who knows of newer
        /// writes, and reads do without.
        primary_is_gone: bool,
    },
}

impl Replica {
    pub fn new(settings: Settings) -> Arc<Replica> {
        let options = open::for_serving(settings.options, STATEMENT_LIMIT);
        Arc::new(Replica {
            options: Arc::new(options),
            standing: watch::Sender::new(Standing::Unfit {
                primary_answers: true,
            }),
            writes: Writes::default(),
            stats: ReplicaStats::new(),
        })
    }

    pub fn stats(&self) -> &Arc<ReplicaStats> {
        &self.stats
    }

    /// What the replica must have replayed to answer a read that must show the write at `written`.
    /// `None`: the primary has to answer.
    fn needed(&self, written: Lsn) -> Option<Lsn> {
        let standing = *self.standing.borrow();
        match standing {
            Standing::KeepsUp { floor, until } if Instant::now() < until => {
                Some(floor.max(written))
            }
            Standing::Alone {
                writes,
                until,
                primary_is_gone,
            } if Instant::now() < until && writes == self.writes.acknowledged() => {
                Some(if primary_is_gone { 0 } else { written })
            }
            _ => None,
        }
    }

    fn is_alone(&self) -> bool {
        matches!(*self.standing.borrow(), Standing::Alone { .. }) && self.needed(0).is_some()
    }

    /// After a commit and before it is acknowledged: reads of these posts and of the feed are to
    /// show it.
    pub async fn committed(
        &self,
        connection: &mut PgConnection,
        post_ids: impl Iterator<Item = i64>,
    ) -> Result<(), sqlx::Error> {
        let flushed = sqlx::query_scalar(FLUSHED).fetch_one(connection).await?;
        self.writes.committed(flushed, post_ids);
        Ok(())
    }
}

/// One worker's reads.
pub struct Reads {
    pub replica: Arc<Replica>,
    pub feed: Callers<(), Bytes>,
    pub post: Callers<i64, Bytes>,
}

impl Reads {
    /// Asks the replica where it may answer, and else the primary.
    pub async fn ask<Q: Copy + Send + 'static, A: Send + 'static>(
        &self,
        on_replica: &Callers<Q, A>,
        on_primary: &Callers<Q, A>,
        question: Q,
    ) -> Result<A, ApiError> {
        let ask = async || match self.replica.needed(0) {
            Some(_) => on_replica.ask(question).await,
            None => on_primary.ask(question).await,
        };
        let mut first = std::pin::pin!(ask());
        let mut answer = match timeout(monitor::FINDS_OUT_AFTER, &mut first).await {
            Ok(answer) => answer,
            // It waits for a primary that does not answer.
            Err(_) if self.replica.is_alone() => return ask().await,
            Err(_) => first.await,
        };
        // Nobody there to answer: for as long as one of the two is about to be.
        let refused = Instant::now();
        while matches!(answer, Err(ApiError::DatabaseUnavailable))
            && refused.elapsed() < RETRY_LIMIT
        {
            let standing = *self.replica.standing.borrow();
            match standing {
                Standing::Unfit {
                    primary_answers: false,
                } => break,
                Standing::Alone { .. } if self.replica.is_alone() => return ask().await,
                _ => tokio::time::sleep(RETRY_PAUSE).await,
            }
            answer = ask().await;
        }
        answer
    }
}
