//! SQLite, in the process: each worker reads on a connection of its own, inline; one thread
//! writes for all of them. Why so, in figures: `docs/sqlite-design.md`.

mod open;
mod reader;
mod statement;
mod writer;

use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use shared::ApiError;
use tracing::error;

use self::reader::Reader;
use self::writer::{Replies, Write, WriterHandle, Written};
use super::stats::Stats;
use super::{Created, NewPost, OpenError};

pub struct Database {
    path: Arc<Path>,
    writer: WriterHandle,
    writes: Arc<Stats>,
}

/// One worker's access.
///
/// A read takes microseconds and never waits for a lock of the database, so it runs on the
/// worker's own thread: handing it to another would cost more than the read.
pub struct Store {
    /// Only this worker locks it, and never across an await: the lock is there to make the
    /// connection shareable in the type system, and is never contended.
    reader: Mutex<Reader>,
    writer: WriterHandle,
    replies: Replies,
}

impl Database {
    /// Opens an existing database that holds our tables. Creates nothing.
    pub fn open(path: &Path) -> Result<Database, OpenError> {
        let connection = open::open_for_writing(path)?;
        let writes = Stats::new("write");
        Ok(Database {
            path: path.into(),
            writer: writer::start(connection, writes.clone())?,
            writes,
        })
    }

    pub fn writes(&self) -> Arc<Stats> {
        self.writes.clone()
    }

    /// Must be called on the worker's runtime: the replies to its writes arrive there.
    pub fn worker(&self) -> Result<Store, OpenError> {
        Ok(Store {
            reader: Mutex::new(open::reader(&self.path)?),
            writer: self.writer.clone(),
            replies: Replies::start(),
        })
    }

    /// Commits what is queued and closes the database. The workers must be gone.
    pub fn close(self) {
        self.writer.close();
    }
}

impl Store {
    pub fn health(&self) -> Result<(), String> {
        self.read(|reader| reader.health())
            .map_err(|_| "the database does not answer".to_owned())
    }

    pub fn feed(&self) -> Result<Bytes, ApiError> {
        self.read(|reader| reader.feed()).map(Bytes::from)
    }

    pub fn post(&self, id: i64) -> Result<Bytes, ApiError> {
        self.read(|reader| reader.post(id))?
            .map(Bytes::from)
            .ok_or(ApiError::PostNotFound)
    }

    pub async fn create(&self, post: NewPost) -> Result<Created, ApiError> {
        // SQLite's length() ends at the first NUL, so the schema's check would refuse this one.
        if post.body.starts_with('\0') {
            return Err(ApiError::BodyRequired);
        }
        match self.write(Write::Create(post)).await? {
            Written::Created(created) => Ok(created),
            Written::Liked { .. } => unreachable!("a create is answered as a create"),
        }
    }

    pub async fn like(&self, user_id: i64, post_id: i64) -> Result<bool, ApiError> {
        match self.write(Write::Like { user_id, post_id }).await? {
            Written::Liked { already } => Ok(already),
            Written::Created(_) => unreachable!("a like is answered as a like"),
        }
    }

    async fn write(&self, write: Write) -> Result<Written, ApiError> {
        self.writer
            .submit(write, &self.replies)?
            .await
            .unwrap_or(Err(ApiError::Internal))
    }

    fn read<T>(
        &self,
        query: impl FnOnce(&mut Reader) -> rusqlite::Result<T>,
    ) -> Result<T, ApiError> {
        let mut reader = self
            .reader
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        query(&mut reader).map_err(|fault| {
            error!(%fault, "a read failed");
            ApiError::Internal
        })
    }
}
