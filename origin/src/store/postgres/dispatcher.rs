//! A task that owns one connection and answers one kind of call on it, group by group.
//!
//! Nothing is acquired, checked or handed over between a call and its statement. A lost server is
//! noticed by the statement that fails; calls are refused at once while it is away, and the
//! connection is made anew until it is back.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use shared::ApiError;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};
use tokio::time::{Instant, sleep, timeout};
use tracing::{error, info, warn};

use super::fault::{self, Fate};
use crate::store::batch::{self, Call, Callers, Queue};
use crate::store::stats::Stats;

/// How long making a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Pauses between tries to connect double from the first to the second: a server that is back is
/// found soon, and one that refuses connections costs next to nothing.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// A connection unused for this long is asked for a sign of life before it is given a statement:
/// a server that was restarted meanwhile then costs nobody an error.
const TRUSTED_IDLE: Duration = Duration::from_secs(1);

/// How often a group is sent again when the server ended it in favour of another transaction.
const MAX_TRIES: u32 = 4;

/// How a group of calls becomes one statement.
pub trait Statement: Send + 'static {
    type Question: Send + 'static;
    type Answer: Send + 'static;

    const NAME: &'static str;
    const MAX_QUEUED: usize;
    const MAX_GROUP: usize;
    /// Whether it may be sent again when nobody knows what became of it: reads may.
    const REPEATABLE: bool;
    /// The longest a statement may run. The server gives up a little earlier by itself, see
    /// `statement_timeout` in [`super::open`].
    const LIMIT: Duration = super::open::STATEMENT_LIMIT.saturating_add(Duration::from_secs(1));

    /// Runs the statement and answers every call of the group. On an error nobody is answered and
    /// the group is left as it was.
    fn run(
        &mut self,
        connection: &mut PgConnection,
        group: &mut Vec<Call<Self::Question, Self::Answer>>,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// Starts the task on this thread's runtime. It ends when the callers are gone.
pub fn start<S: Statement>(
    statement: S,
    options: Arc<PgConnectOptions>,
    stats: Arc<Stats>,
) -> Callers<S::Question, S::Answer> {
    let (callers, queue) = batch::queue(S::MAX_QUEUED, S::MAX_GROUP);
    stats.watch_queue(callers.depth());
    let dispatcher = Dispatcher {
        statement,
        options,
        stats,
        queue,
        group: Vec::new(),
        apart: Vec::new(),
        resent: false,
    };
    tokio::spawn(dispatcher.run());
    callers
}

struct Dispatcher<S: Statement> {
    statement: S,
    options: Arc<PgConnectOptions>,
    stats: Arc<Stats>,
    queue: Queue<S::Question, S::Answer>,
    group: Vec<Call<S::Question, S::Answer>>,
    /// Members of a group that the database refused for the values of one of them. Each is sent
    /// again alone, so that the bad one does not sink its neighbours.
    apart: Vec<Call<S::Question, S::Answer>>,
    /// The group was sent on a connection that was lost, and may be sent on one more.
    resent: bool,
}

/// Why a connection is not used any longer.
enum Ended {
    NoCallersLeft,
    Lost,
}

impl<S: Statement> Dispatcher<S> {
    async fn run(mut self) {
        while let Some(mut connection) = self.connect().await {
            self.stats.connected();
            let ended = self.serve(&mut connection).await;
            self.stats.disconnected();
            if let Ended::NoCallersLeft = ended {
                let _ = timeout(CONNECT_LIMIT, connection.close()).await;
                return;
            }
        }
    }

    /// Tries until it succeeds. After the first failure every call is refused at once; before it,
    /// calls wait: they may have come with a connection that only had to be made anew. `None`: no
    /// callers are left.
    async fn connect(&mut self) -> Option<PgConnection> {
        let options = self.options.clone();
        let attempt = || timeout(CONNECT_LIMIT, options.connect());
        let mut outcome = attempt().await;
        let mut pause = FIRST_PAUSE;
        loop {
            let fault = match outcome {
                Ok(Ok(connection)) => {
                    if pause > FIRST_PAUSE {
                        info!(calls = S::NAME, "the database is back");
                    }
                    return Some(connection);
                }
                Ok(Err(fault)) => fault::describe(&fault),
                Err(_) => "no connection within the time limit".to_owned(),
            };
            if pause == FIRST_PAUSE {
                warn!(calls = S::NAME, fault, "the database is away");
            }
            self.group.append(&mut self.apart);
            self.refuse_group(ApiError::DatabaseUnavailable);
            outcome = tokio::select! {
                outcome = async {
                    sleep(pause).await;
                    attempt().await
                } => outcome,
                () = self.queue.refuse(ApiError::DatabaseUnavailable) => return None,
            };
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn serve(&mut self, connection: &mut PgConnection) -> Ended {
        let mut last_used = Instant::now();
        loop {
            if self.group.is_empty() {
                if let Some(call) = self.apart.pop() {
                    self.group.push(call);
                } else if !self.queue.next_group(&mut self.group).await {
                    return Ended::NoCallersLeft;
                }
            }
            // The group survives a connection that turns out dead before it was used.
            if last_used.elapsed() > TRUSTED_IDLE {
                let alive = timeout(CONNECT_LIMIT, connection.ping()).await;
                if !matches!(alive, Ok(Ok(()))) {
                    return Ended::Lost;
                }
            }
            self.stats.group(self.group.len());
            if let Err(ended) = self.answer_group(connection).await {
                return ended;
            }
            last_used = Instant::now();
        }
    }

    async fn answer_group(&mut self, connection: &mut PgConnection) -> Result<(), Ended> {
        for tries_left in (0..MAX_TRIES).rev() {
            let run = self.statement.run(connection, &mut self.group);
            let fault = match timeout(S::LIMIT, run).await {
                Ok(Ok(())) => {
                    debug_assert!(self.group.is_empty(), "{}: every call is answered", S::NAME);
                    self.resent = false;
                    return Ok(());
                }
                Ok(Err(fault)) => fault,
                Err(_) => {
                    warn!(calls = S::NAME, "a statement ran into the time limit");
                    break;
                }
            };
            match fault::fate(&fault) {
                Fate::Contended if tries_left > 0 => self.stats.retried(),
                Fate::Rejected if self.group.len() > 1 => {
                    self.apart.append(&mut self.group);
                    return Ok(());
                }
                Fate::Rejected => {
                    error!(
                        calls = S::NAME,
                        fault = fault::describe(&fault),
                        "a call was refused"
                    );
                    self.refuse_group(ApiError::Internal);
                    return Ok(());
                }
                Fate::Contended | Fate::Lost => {
                    warn!(
                        calls = S::NAME,
                        fault = fault::describe(&fault),
                        "a statement failed"
                    );
                    if S::REPEATABLE && !self.resent {
                        self.resent = true;
                        return Err(Ended::Lost);
                    }
                    break;
                }
            }
        }
        // A write may or may not have happened: it is not acknowledged.
        self.refuse_group(ApiError::DatabaseUnavailable);
        Err(Ended::Lost)
    }

    fn refuse_group(&mut self, refusal: ApiError) {
        self.resent = false;
        for call in self.group.drain(..) {
            call.answer(Err(refusal));
        }
    }
}
