//! A task that owns one connection to the replica and answers one kind of read on it. What it cannot
//! answer goes on to the primary.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{ConnectOptions, Connection, Error};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::writes::Writes;
use super::{ANSWER_LIMIT, Lsn, Replica, Standing};
use crate::store::batch::{self, Call, Callers, Queue};
use crate::store::postgres::dispatcher::Statement;
use crate::store::postgres::fault::{describe, is_cancelled};
use crate::store::stats::Stats;

const CONNECT_LIMIT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(250);

/// How far this replica has replayed; nothing when it has become a primary.
const REPLAYED: &str = "SELECT CASE WHEN pg_is_in_recovery() \
    THEN (pg_last_wal_replay_lsn() - '0/0')::bigint END";

/// A read that a replica may answer. It leaves those calls in the group that the primary has to
/// decide.
pub trait ReplicaRead: Statement {
    /// The latest of this origin's writes that may show in what the group asks for.
    fn written(writes: &Writes, group: &[Call<Self::Question, Self::Answer>]) -> Lsn;
}

/// Starts the task on this thread's runtime. It ends when the callers are gone.
pub fn start<S: ReplicaRead>(
    statement: S,
    replica: Arc<Replica>,
    primary: Callers<S::Question, S::Answer>,
    stats: Arc<Stats>,
) -> Callers<S::Question, S::Answer> {
    let (callers, queue) = batch::queue(S::MAX_QUEUED, S::MAX_GROUP);
    stats.watch_queue(callers.depth());
    let reader = Reader {
        statement,
        replica,
        primary,
        stats,
        queue,
        group: Vec::new(),
    };
    tokio::spawn(reader.run());
    callers
}

struct Reader<S: Statement> {
    statement: S,
    replica: Arc<Replica>,
    primary: Callers<S::Question, S::Answer>,
    stats: Arc<Stats>,
    queue: Queue<S::Question, S::Answer>,
    group: Vec<Call<S::Question, S::Answer>>,
}

impl<S: ReplicaRead> Reader<S> {
    async fn run(mut self) {
        while let Some(mut connection) = self.connect().await {
            self.stats.connected();
            let callers_left = self.serve(&mut connection).await;
            self.stats.disconnected();
            if !callers_left {
                let _ = timeout(CONNECT_LIMIT, connection.close()).await;
                return;
            }
        }
    }

    /// Once the replica may be read from; until then whoever comes goes on to the primary. `None`:
    /// no callers are left.
    async fn connect(&mut self) -> Option<PgConnection> {
        let mut standing = self.replica.standing.subscribe();
        let connecting = async {
            loop {
                let fit = |standing: &Standing| !matches!(standing, Standing::Unfit { .. });
                if standing.wait_for(fit).await.is_err() {
                    // The monitor has ended, and with it the process.
                    std::future::pending::<()>().await;
                }
                match timeout(CONNECT_LIMIT, self.replica.options.connect()).await {
                    Ok(Ok(connection)) => return connection,
                    Ok(Err(fault)) => {
                        debug!(calls = S::NAME, fault = describe(&fault), "no replica")
                    }
                    Err(_) => debug!(calls = S::NAME, "no replica within the time limit"),
                }
                sleep(PAUSE).await;
            }
        };
        tokio::select! {
            connection = connecting => Some(connection),
            () = self.queue.pass_on(&self.primary) => None,
        }
    }

    /// False: no caller is left. True: the connection is of no use any longer.
    async fn serve(&mut self, connection: &mut PgConnection) -> bool {
        // On this connection, so that no restart and no other server behind the same address can
        // come between.
        let mut replayed: Lsn = 0;
        while self.queue.next_group(&mut self.group).await {
            let written = S::written(&self.replica.writes, &self.group);
            let lost = match self.replica.needed(written) {
                None => None,
                Some(needed) => {
                    let answer = self.answer(connection, &mut replayed, needed);
                    match timeout(ANSWER_LIMIT, answer).await {
                        Ok(Ok(())) => None,
                        // In favour of what the replica had to replay.
                        Ok(Err(fault)) if is_cancelled(&fault) => {
                            self.stats.retried();
                            None
                        }
                        Ok(Err(fault)) => Some(describe(&fault)),
                        Err(_) => Some("no answer within the time limit".to_owned()),
                    }
                }
            };
            if !self.group.is_empty() {
                self.replica.stats.passed_on(self.group.len());
                for call in self.group.drain(..) {
                    self.primary.pass_on(call);
                }
            }
            if let Some(fault) = lost {
                warn!(
                    calls = S::NAME,
                    fault, "a connection to the replica is given up"
                );
                return true;
            }
        }
        false
    }

    /// Answers those of the group that the replica can.
    async fn answer(
        &mut self,
        connection: &mut PgConnection,
        replayed: &mut Lsn,
        needed: Lsn,
    ) -> Result<(), Error> {
        if *replayed < needed {
            let asked: Option<Lsn> = sqlx::query_scalar(REPLAYED)
                .fetch_one(&mut *connection)
                .await?;
            *replayed = asked.unwrap_or(0);
        }
        if *replayed >= needed {
            let calls = self.group.len();
            self.statement.run(connection, &mut self.group).await?;
            self.stats.group(calls - self.group.len());
        }
        Ok(())
    }
}
