//! What the API asks of a database.
//!
//! A call is a value: a handler asks for a feed, a post, a create or a like and awaits the answer.
//! That many callers share one transaction or one query is a store's own affair, invisible above.

mod batch;
pub mod postgres;
pub mod sqlite;
pub mod stats;
pub mod target;

use std::sync::Arc;

use bytes::Bytes;
use prometheus::core::Collector;
use shared::ApiError;

use self::stats::Stats;

/// An opened database, shared by all workers of the process.
pub enum Database {
    Sqlite(sqlite::Database),
    Postgres(postgres::Database),
}

/// One worker's access to the database. Every worker has its own, so nothing in it is contended.
pub enum Store {
    Sqlite(sqlite::Store),
    Postgres(postgres::Store),
}

/// A post to be stored: the text is validated and trimmed already.
pub struct NewPost {
    pub user_id: i64,
    pub body: String,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Created {
    pub id: i64,
    /// As later reads return it.
    pub created_at: String,
}

/// Why a store does not open, as one line that says what to do. Carries no password.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct OpenError(pub String);

impl Database {
    /// Must be called on the worker's own event loop.
    pub fn worker(&self) -> Result<Store, OpenError> {
        match self {
            Database::Sqlite(database) => Ok(Store::Sqlite(database.worker()?)),
            Database::Postgres(database) => Ok(Store::Postgres(database.worker())),
        }
    }

    /// What is counted.
    pub fn collectors(&self) -> Vec<Box<dyn Collector>> {
        let shown = |stats: Arc<Stats>| -> Box<dyn Collector> { Box::new(stats::Shown(stats)) };
        match self {
            Database::Sqlite(database) => vec![shown(database.writes())],
            Database::Postgres(database) => {
                let mut all: Vec<_> = database.stats().into_iter().map(shown).collect();
                if let Some(stats) = database.replica_stats() {
                    all.push(Box::new(postgres::replica::Shown(stats.clone())));
                }
                all
            }
        }
    }

    /// Ends in order: what was accepted is committed. The workers must be gone.
    pub fn close(self) {
        match self {
            Database::Sqlite(database) => database.close(),
            // Each worker's connections end with its runtime; nothing is answered before it is
            // committed.
            Database::Postgres(_) => {}
        }
    }
}

impl Store {
    /// Whether the database answers a query. The error is shown to anyone.
    pub async fn health(&self) -> Result<(), String> {
        match self {
            Store::Sqlite(store) => store.health(),
            Store::Postgres(store) => store.health().await.map_err(|fault| fault.to_string()),
        }
    }

    /// The whole body of `GET /feed`.
    pub async fn feed(&self) -> Result<Bytes, ApiError> {
        match self {
            Store::Sqlite(store) => store.feed(),
            Store::Postgres(store) => store.feed().await,
        }
    }

    /// The whole body of `GET /posts/:id`.
    pub async fn post(&self, id: i64) -> Result<Bytes, ApiError> {
        match self {
            Store::Sqlite(store) => store.post(id),
            Store::Postgres(store) => store.post(id).await,
        }
    }

    /// Answers once the post is committed.
    pub async fn create(&self, post: NewPost) -> Result<Created, ApiError> {
        match self {
            Store::Sqlite(store) => store.create(post).await,
            Store::Postgres(store) => store.create(post).await,
        }
    }

    /// Answers once the like is committed: whether it was there already.
    pub async fn like(&self, user_id: i64, post_id: i64) -> Result<bool, ApiError> {
        match self {
            Store::Sqlite(store) => store.like(user_id, post_id).await,
            Store::Postgres(store) => store.like(user_id, post_id).await,
        }
    }
}
