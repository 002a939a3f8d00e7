//! The native load generator: all users on one thread, a few kB each.

mod closed;
mod connection;
mod hammer;
mod load;
pub mod model;
mod open;
mod record;
mod session;
mod tokens;

use std::future::Future;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use testbed::{Error, Result};
use tokio::task::LocalSet;

pub use load::{Load, Shape, Target};
pub use record::{Kind, Latency, Requests, Second, Summary, Window};
use session::Session;

/// What a run says while it goes on, in this order.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    Started { unix_ms: u64 },
    Second(Second),
    Finished(Box<Summary>),
}

/// Files a process has open besides its connections.
const SPARE_FILES: u64 = 64;

/// Runs a load to its end, or until `stop` is ready.
pub fn run(
    load: &Load,
    stop: impl Future<Output = ()>,
    mut say: impl FnMut(Message),
) -> Result<()> {
    let tokens = tokens::read(&load.tokens)?;
    allow_files(u64::from(load.shape.connections()) + SPARE_FILES)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new(format!("cannot start a runtime: {error}")))?;
    let tasks = LocalSet::new();
    let session = Session::new(load.clone(), tokens);
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    say(Message::Started {
        unix_ms: unix.unwrap_or_default().as_millis() as u64,
    });
    let begun = session.clone();
    tasks.spawn_local(async move {
        match begun.load.shape {
            Shape::Users { users } => closed::users(begun, users).await,
            Shape::Arrivals {
                per_second,
                connections,
            } => open::arrivals(begun, per_second, connections).await,
            Shape::Hammer {
                target,
                connections,
            } => hammer::hammer(begun, target, connections).await,
        }
    });
    let interrupted = runtime.block_on(tasks.run_until(watch(session.clone(), stop, &mut say)));
    // Ends what is still on its way, which counts it as unanswered.
    drop(tasks);
    let summary = session.recorder.borrow().summary(interrupted);
    say(Message::Finished(Box::new(summary)));
    Ok(())
}

/// Ends every second; returns whether the run was stopped before its time.
async fn watch(
    session: Rc<Session>,
    stop: impl Future<Output = ()>,
    say: &mut impl FnMut(Message),
) -> bool {
    let mut stop = std::pin::pin!(stop);
    for second in 1.. {
        let due = session.start + Duration::from_secs(second.into());
        tokio::select! {
            () = tokio::time::sleep_until(due.into()) => {}
            () = &mut stop => return true,
        }
        let row = session.recorder.borrow_mut().second(second);
        let late = Instant::now().saturating_duration_since(due);
        say(Message::Second(Second {
            users: session.users.get(),
            in_flight: session.in_flight.get(),
            generator_late_us: late.as_micros() as u64,
            ..row
        }));
        let elapsed = session.start.elapsed();
        let load = &session.load;
        let is_over = elapsed >= load.end() && session.users.get() == 0;
        if is_over || elapsed >= load.latest_end() {
            return false;
        }
    }
    false
}

/// As many as the generator may hold open, and a server on the same machine, which has a few files
/// besides.
pub fn most_connections() -> u32 {
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    u32::try_from(files.saturating_sub(500)).unwrap_or(u32::MAX)
}

fn allow_files(needed: u64) -> Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    if maximum.is_some_and(|maximum| maximum < needed) {
        return Err(Error::new(format!(
            "this load needs {needed} open files, the limit is {}: raise it (ulimit -Hn) or use fewer \
             connections",
            maximum.unwrap_or_default()
        )));
    }
    let limit = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, limit)
        .map_err(|error| Error::new(format!("cannot raise the limit of open files: {error}")))
}
