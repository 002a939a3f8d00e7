//! Group commit: one thread writes for all workers.
//!
//! Whatever is waiting when the writer is free shares one transaction. There is no timer: a lone
//! write commits at once, and under load the groups grow by themselves while the one before is
//! being committed. Every reply waits for the commit that carries it.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, ErrorCode};
use shared::{ApiError, timestamp};
use tokio::sync::{mpsc, oneshot};
use tracing::error;

use crate::store::stats::Stats;
use crate::store::{Created, NewPost, OpenError};

/// Writes that may wait; one more is refused as overload.
const MAX_QUEUED: usize = 4_096;

/// The most writes of one transaction: bounds how long the first of a group waits for the last.
const MAX_GROUP: usize = 512;

pub enum Write {
    Create(NewPost),
    Like { user_id: i64, post_id: i64 },
}

#[derive(Debug)]
pub enum Written {
    Created(Created),
    Liked { already: bool },
}

type Outcome = Result<Written, ApiError>;

struct Job {
    write: Write,
    reply: oneshot::Sender<Outcome>,
    replies: Replies,
}

/// Where a worker's replies arrive: a whole group in one message, so that the writer wakes a
/// worker's event loop once for a group and not once for a write.
#[derive(Clone)]
pub struct Replies(mpsc::UnboundedSender<Vec<Reply>>);

struct Reply {
    to: oneshot::Sender<Outcome>,
    outcome: Outcome,
}

impl Replies {
    pub fn start() -> Replies {
        let (sender, mut groups) = mpsc::unbounded_channel::<Vec<Reply>>();
        tokio::spawn(async move {
            while let Some(group) = groups.recv().await {
                for reply in group {
                    // A client that has left does not want its answer.
                    let _ = reply.to.send(reply.outcome);
                }
            }
        });
        Replies(sender)
    }
}

#[derive(Clone)]
pub struct WriterHandle {
    queue: mpsc::Sender<Job>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl WriterHandle {
    pub fn submit(
        &self,
        write: Write,
        replies: &Replies,
    ) -> Result<oneshot::Receiver<Outcome>, ApiError> {
        let (reply, outcome) = oneshot::channel();
        match self.queue.try_send(Job {
            write,
            reply,
            replies: replies.clone(),
        }) {
            Ok(()) => Ok(outcome),
            Err(mpsc::error::TrySendError::Full(_)) => Err(ApiError::Overloaded),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(ApiError::Internal),
        }
    }

    /// Waits until everything queued is committed and the database is closed.
    pub fn close(self) {
        drop(self.queue);
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

pub fn start(connection: Connection, stats: Arc<Stats>) -> Result<WriterHandle, OpenError> {
    let (queue, jobs) = mpsc::channel(MAX_QUEUED);
    stats.connected();
    // Weak: the writer ends when nobody else holds its queue.
    let waiting = queue.downgrade();
    stats.watch_queue(move || {
        let queue = waiting.upgrade();
        queue.map_or(0, |queue| queue.max_capacity() - queue.capacity())
    });
    let thread = std::thread::Builder::new()
        .name("sqlite-writer".to_owned())
        .spawn(move || {
            Writer {
                connection,
                stats,
                last_created_ms: 0,
            }
            .run(jobs)
        })
        .map_err(|fault| OpenError(format!("cannot start the writer thread: {fault}")))?;
    Ok(WriterHandle {
        queue,
        thread: Arc::new(Mutex::new(Some(thread))),
    })
}

struct Writer {
    connection: Connection,
    stats: Arc<Stats>,
    /// Never goes back, whatever the clock does: the feed is ordered by it.
    last_created_ms: i64,
}

impl Writer {
    fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut group = Vec::with_capacity(MAX_GROUP);
        while jobs.blocking_recv_many(&mut group, MAX_GROUP) > 0 {
            self.stats.group(group.len());
            let outcomes = self.commit(&group);
            answer(group.drain(..).zip(outcomes));
        }
    }

    fn commit(&mut self, group: &[Job]) -> Vec<Outcome> {
        match self.transaction(group) {
            Ok(outcomes) => outcomes,
            Err(fault) => {
                error!(%fault, writes = group.len(), "a transaction failed");
                if !self.connection.is_autocommit() {
                    let _ = self.connection.execute_batch("ROLLBACK");
                }
                let busy = fault.sqlite_error_code() == Some(ErrorCode::DatabaseBusy);
                let error = if busy {
                    ApiError::Overloaded
                } else {
                    ApiError::Internal
                };
                group.iter().map(|_| Err(error)).collect()
            }
        }
    }

    /// The outcome of each write, once all of them are committed.
    fn transaction(&mut self, group: &[Job]) -> rusqlite::Result<Vec<Outcome>> {
        let now_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_millis());
        self.last_created_ms = self.last_created_ms.max(now_ms as i64);
        let now = timestamp::format_ms(self.last_created_ms);

        self.connection
            .prepare_cached("BEGIN IMMEDIATE")?
            .execute([])?;
        let mut outcomes = Vec::with_capacity(group.len());
        for job in group {
            let outcome = match &job.write {
                Write::Create(post) => self.create(post, &now),
                Write::Like { user_id, post_id } => self.like(*user_id, *post_id, &now),
            };
            outcomes.push(match outcome {
                Ok(outcome) => outcome,
                // The statement alone was undone: its neighbours go on. Unless SQLite gave up the
                // transaction (a full disk, say): then nobody's write is in.
                Err(fault) if !self.connection.is_autocommit() => {
                    error!(%fault, "a write failed");
                    Err(ApiError::Internal)
                }
                Err(fault) => return Err(fault),
            });
        }
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(outcomes)
    }

    fn create(&self, post: &NewPost, now: &str) -> rusqlite::Result<Outcome> {
        let inserted = self
            .connection
            .prepare_cached("INSERT INTO posts (user_id, body, created_at) VALUES (?1, ?2, ?3)")?
            .insert((post.user_id, &post.body, now));
        match inserted {
            Ok(id) => Ok(Ok(Written::Created(Created {
                id,
                created_at: now.to_owned(),
            }))),
            Err(fault) if is_foreign_key(&fault) => Ok(Err(ApiError::UnknownUser)),
            Err(fault) => Err(fault),
        }
    }

    fn like(&self, user_id: i64, post_id: i64, now: &str) -> rusqlite::Result<Outcome> {
        let inserted = self
            .connection
            .prepare_cached(
                "INSERT INTO likes (user_id, post_id, created_at) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (user_id, post_id) DO NOTHING",
            )?
            .execute((user_id, post_id, now));
        match inserted {
            Ok(rows) => Ok(Ok(Written::Liked { already: rows == 0 })),
            Err(fault) if is_foreign_key(&fault) => {
                let known = self
                    .connection
                    .prepare_cached("SELECT 1 FROM users WHERE id = ?1")?
                    .exists([user_id])?;
                Ok(Err(if known {
                    ApiError::PostNotFound
                } else {
                    ApiError::UnknownUser
                }))
            }
            Err(fault) => Err(fault),
        }
    }
}

fn is_foreign_key(fault: &rusqlite::Error) -> bool {
    matches!(
        fault,
        rusqlite::Error::SqliteFailure(error, _)
            if error.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_FOREIGNKEY
    )
}

/// Sends each worker its replies, one message a worker.
fn answer(group: impl Iterator<Item = (Job, Outcome)>) {
    let mut by_worker: Vec<(Replies, Vec<Reply>)> = Vec::new();
    for (job, outcome) in group {
        let reply = Reply {
            to: job.reply,
            outcome,
        };
        match by_worker
            .iter_mut()
            .find(|(worker, _)| worker.0.same_channel(&job.replies.0))
        {
            Some((_, replies)) => replies.push(reply),
            None => by_worker.push((job.replies, vec![reply])),
        }
    }
    for (worker, replies) in by_worker {
        // A worker that is gone has no clients left.
        let _ = worker.0.send(replies);
    }
}
