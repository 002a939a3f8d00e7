//! One task for the process looks at both servers again and again, and says how the replica stands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Error};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{info, warn};

use super::lag::{Moment, Moments};
use super::stats::State;
use super::{Lsn, Replica, Settings, Standing};
use crate::store::postgres::fault::{self, describe};
use crate::store::target::Target;

/// How long one look at a server may take, a connection that has to be made included.
const CHECK_LIMIT: Duration = Duration::from_secs(1);
const SILENT: &str = "no answer within a second";

/// When a primary stops answering, this much later the monitor has found out.
pub const FINDS_OUT_AFTER: Duration = Duration::from_millis(1_200);

/// Looks are this far apart, or a fifth of the bound where that is less: a replica that keeps up
/// is seen to be at most about two looks behind, and one look that comes late changes nothing.
const LONGEST_INTERVAL: Duration = Duration::from_millis(100);

/// Pauses between tries to connect double from the first to the second.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

const LOOK: &str = "SELECT pg_is_in_recovery(), \
    (SELECT system_identifier FROM pg_control_system()), \
    (SELECT oid::bigint FROM pg_database WHERE datname = current_database()), \
    coalesce((CASE WHEN pg_is_in_recovery() \
        THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END - '0/0')::bigint, 0)";

/// Ends with the value.
pub struct Monitor(JoinHandle<()>);

impl Monitor {
    /// Must be called on a runtime that lives as long as the value.
    pub fn start(
        replica: Arc<Replica>,
        primary: Arc<PgConnectOptions>,
        settings: &Settings,
    ) -> Monitor {
        let watch = Watch {
            shown: Target::Postgres(Box::new(settings.options.clone())),
            primary: Server::new(primary),
            replica: Server::new(replica.options.clone()),
            moments: Moments::new(settings.lag_bound),
            lag_bound: settings.lag_bound,
            alone_limit: settings.alone_limit,
            identity: None,
            replayed: 0,
            told: None,
            published: replica,
        };
        Monitor(tokio::spawn(watch.run()))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Watch {
    /// The replica, for the log.
    shown: Target,
    primary: Server,
    replica: Server,
    moments: Moments,
    lag_bound: Duration,
    alone_limit: Duration,
    /// The primary's, from when it last answered.
    identity: Option<Identity>,
    /// By the replica, when it was last looked at.
    replayed: Lsn,
    /// What the log said last.
    told: Option<State>,
    published: Arc<Replica>,
}

/// Of one history of writes, and the database in it.
type Identity = (i64, i64);

struct Look {
    /// Just before the server was asked.
    at: Instant,
    is_replica: bool,
    identity: Identity,
    /// What the primary has on disk, or the replica has replayed.
    lsn: Lsn,
}

#[derive(Clone)]
enum Fault {
    /// Nobody is there.
    Away(String),
    /// Nobody answers: it may be busy, frozen, or behind a network that loses everything.
    Silent,
    /// Somebody does, and objects.
    Refused(String),
}

/// What a look at both came to.
struct Verdict {
    state: State,
    reason: String,
    standing: Standing,
    /// The latest moment of the primary that the replica shows in full.
    shown: Option<Moment>,
}

impl Watch {
    async fn run(mut self) {
        let mut looks = interval(LONGEST_INTERVAL.min(self.lag_bound / 5));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let writes = self.published.writes.acknowledged();
            let (primary, replica) = tokio::join!(self.primary.look(), self.replica.look());
            let verdict = self.judge(writes, primary, replica);
            self.published.standing.send_replace(verdict.standing);
            let lag = verdict.shown.map(|moment| moment.at.elapsed());
            self.published.stats.stands(verdict.state, lag);
            if self.told.replace(verdict.state) != Some(verdict.state) {
                self.tell(verdict.state, &verdict.reason);
            }
        }
    }

    fn judge(
        &mut self,
        writes: u64,
        primary: Result<Look, Fault>,
        replica: Result<Look, Fault>,
    ) -> Verdict {
        let primary_answers = primary.is_ok();
        let unfit = |state, reason| Verdict {
            state,
            reason,
            standing: Standing::Unfit { primary_answers },
            shown: None,
        };
        // Noted whatever the replica is: it may be back for the next look.
        if let Ok(primary) = &primary {
            self.identity = Some(primary.identity);
            let (at, lsn) = (primary.at, primary.lsn);
            self.moments.push(Moment { at, lsn });
        }
        let replica = match replica {
            Ok(replica) => replica,
            Err(Fault::Away(reason)) => return unfit(State::Away, reason),
            Err(Fault::Silent) => return unfit(State::Away, SILENT.to_owned()),
            Err(Fault::Refused(reason)) => return unfit(State::Refused, reason),
        };
        let replayed_before = std::mem::replace(&mut self.replayed, replica.lsn);
        let objection = if !replica.is_replica {
            Some("it takes writes: it is no replica, or was promoted")
        } else if self
            .identity
            .is_some_and(|identity| identity != replica.identity)
        {
            Some("it replicates another server, or another database than DATABASE_URL names")
        } else if (primary.as_ref()).is_ok_and(|primary| replayed_before > primary.lsn) {
            // Nor may it count as recent when the primary comes past it.
            self.moments.clear();
            Some("it is ahead of the primary: their histories have parted")
        } else if primary.as_ref().is_ok_and(|primary| primary.is_replica) {
            Some("DATABASE_URL names a replica itself")
        } else {
            None
        };
        if let Some(objection) = objection {
            return unfit(State::Refused, objection.to_owned());
        }
        let (Some(shown), Some(latest)) =
            (self.moments.shown_by(replica.lsn), self.moments.latest())
        else {
            return unfit(State::Lags, "behind by more than the bound".to_owned());
        };
        let (state, reason, standing) = match primary {
            Ok(_) => {
                let (floor, until) = (shown.lsn, shown.at + self.lag_bound);
                let standing = Standing::KeepsUp { floor, until };
                (State::KeepsUp, String::new(), standing)
            }
            Err(Fault::Refused(reason)) => {
                let reason = format!("the primary cannot be looked at: {reason}");
                return unfit(State::Lags, reason);
            }
            Err(away) => {
                let until = latest.at + self.alone_limit;
                if until <= Instant::now() {
                    let reason = "the primary has been away for longer than reads may go on";
                    return unfit(State::Lags, reason.to_owned());
                }
                let (reason, primary_is_gone) = match away {
                    Fault::Away(reason) => (reason, true),
                    _ => (SILENT.to_owned(), false),
                };
                let standing = Standing::Alone {
                    writes,
                    until,
                    primary_is_gone,
                };
                (State::Alone, reason, standing)
            }
        };
        Verdict {
            state,
            reason,
            standing,
            shown: Some(shown),
        }
    }

    fn tell(&self, state: State, reason: &str) {
        let replica = &self.shown;
        let lag_bound_ms = self.lag_bound.as_millis() as u64;
        match state {
            State::KeepsUp => {
                info!(%replica, lag_bound_ms, "the replica keeps up: it is read from")
            }
            State::Alone => {
                warn!(%replica, reason, "the primary is away: reads go on from the replica")
            }
            State::Lags => {
                warn!(%replica, reason, lag_bound_ms, "the replica lags: reads go to the primary")
            }
            State::Away => warn!(%replica, reason, "the replica is away: reads go to the primary"),
            State::Refused => {
                warn!(%replica, reason, "the replica cannot be read from: reads go to the primary")
            }
        }
    }
}

/// One of the two, with the connection that looks are taken on.
struct Server {
    options: Arc<PgConnectOptions>,
    connection: Option<PgConnection>,
    pause: Duration,
    rests_until: Instant,
    /// Why there is no connection.
    fault: Fault,
}

impl Server {
    fn new(options: Arc<PgConnectOptions>) -> Server {
        Server {
            options,
            connection: None,
            pause: FIRST_PAUSE,
            rests_until: Instant::now(),
            fault: Fault::Away(String::new()),
        }
    }

    async fn look(&mut self) -> Result<Look, Fault> {
        if self.connection.is_none() && Instant::now() < self.rests_until {
            return Err(self.fault.clone());
        }
        let fault = match timeout(CHECK_LIMIT, self.try_to_look()).await {
            Ok(Ok(look)) => {
                self.pause = FIRST_PAUSE;
                return Ok(look);
            }
            Ok(Err(fault)) if is_away(&fault) => Fault::Away(describe(&fault)),
            Ok(Err(fault)) => Fault::Refused(describe(&fault)),
            Err(_) => Fault::Silent,
        };
        self.connection = None;
        self.rests_until = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.fault = fault.clone();
        Err(fault)
    }

    async fn try_to_look(&mut self) -> Result<Look, Error> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(self.options.connect().await?),
        };
        let at = Instant::now();
        let (is_replica, system, database, lsn) =
            sqlx::query_as(LOOK).fetch_one(connection).await?;
        Ok(Look {
            at,
            is_replica,
            identity: (system, database),
            lsn,
        })
    }
}

/// Nobody answers, or somebody says that the server is starting, stopping or was ended.
fn is_away(fault: &Error) -> bool {
    match fault::sqlstate(fault) {
        Some(code) => code.starts_with("57P"),
        None => true,
    }
}
