//! PostgreSQL: each worker has a few connections of its own, one for each kind of call, and many
//! callers travel in one statement.

mod create;
mod dispatcher;
mod fault;
mod feed;
mod health;
mod like;
mod open;
mod post;
mod row;
pub mod schema;

use std::sync::Arc;

use bytes::Bytes;
use shared::ApiError;
use sqlx::postgres::PgConnectOptions;

use self::create::Create;
use self::dispatcher::Statement;
use self::feed::Feed;
use self::health::Health;
use self::like::{Like, NewLike};
pub use self::open::migrate;
use self::post::PostById;
use super::batch::Callers;
use super::stats::Stats;
use super::{Created, NewPost, OpenError};

pub struct Database {
    options: Arc<PgConnectOptions>,
    kinds: Kinds,
}

/// Counters of each kind of call, over all workers.
struct Kinds {
    health: Arc<Stats>,
    feed: Arc<Stats>,
    post: Arc<Stats>,
    create: Arc<Stats>,
    like: Arc<Stats>,
}

/// One worker's access.
pub struct Store {
    health: Callers<(), ()>,
    feed: Callers<(), Bytes>,
    post: Callers<i64, Bytes>,
    create: Callers<NewPost, Created>,
    like: Callers<NewLike, bool>,
}

impl Database {
    /// Checks that the server is there, is new enough and holds our tables in this version's
    /// form. Creates nothing.
    pub async fn open(options: PgConnectOptions) -> Result<Database, OpenError> {
        let options = open::for_serving(options);
        open::check(&options).await?;
        Ok(Database {
            options: Arc::new(options),
            kinds: Kinds {
                health: Stats::new(Health::NAME),
                feed: Stats::new(Feed::NAME),
                post: Stats::new(PostById::NAME),
                create: Stats::new(Create::NAME),
                like: Stats::new(Like::NAME),
            },
        })
    }

    /// Must be called on the worker's runtime: its connections live there.
    pub fn worker(&self) -> Store {
        let Kinds {
            health,
            feed,
            post,
            create,
            like,
        } = &self.kinds;
        Store {
            health: dispatcher::start(Health, self.options.clone(), health.clone()),
            feed: dispatcher::start(Feed, self.options.clone(), feed.clone()),
            post: dispatcher::start(PostById, self.options.clone(), post.clone()),
            create: dispatcher::start(Create, self.options.clone(), create.clone()),
            like: dispatcher::start(Like, self.options.clone(), like.clone()),
        }
    }

    pub fn stats(&self) -> Vec<Arc<Stats>> {
        let Kinds {
            health,
            feed,
            post,
            create,
            like,
        } = &self.kinds;
        [health, feed, post, create, like].map(Arc::clone).into()
    }
}

impl Store {
    pub async fn health(&self) -> Result<(), ApiError> {
        self.health.ask(()).await
    }

    pub async fn feed(&self) -> Result<Bytes, ApiError> {
        self.feed.ask(()).await
    }

    pub async fn post(&self, id: i64) -> Result<Bytes, ApiError> {
        self.post.ask(id).await
    }

    pub async fn create(&self, post: NewPost) -> Result<Created, ApiError> {
        if post.body.contains('\0') {
            return Err(ApiError::BodyContainsNul);
        }
        self.create.ask(post).await
    }

    pub async fn like(&self, user_id: i64, post_id: i64) -> Result<bool, ApiError> {
        self.like.ask(NewLike { post_id, user_id }).await
    }
}
