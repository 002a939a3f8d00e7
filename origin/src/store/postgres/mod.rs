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
pub mod replica;
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
use self::replica::{Monitor, Reads, Replica, ReplicaStats};
use super::batch::Callers;
use super::stats::Stats;
use super::{Created, NewPost, OpenError};

pub struct Database {
    options: Arc<PgConnectOptions>,
    kinds: Kinds,
    replica: Option<WatchedReplica>,
}

struct WatchedReplica {
    replica: Arc<Replica>,
    /// What it answered.
    feed: Arc<Stats>,
    post: Arc<Stats>,
    _monitor: Monitor,
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
    replica: Option<Reads>,
}

impl Database {
    /// Checks that the server is there, is new enough and holds our tables in this version's
    /// form. Creates nothing.
    pub async fn open(options: PgConnectOptions) -> Result<Database, OpenError> {
        let options = open::for_serving(options, open::STATEMENT_LIMIT);
        open::check(&options).await?;
        Ok(Database {
            replica: None,
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

    /// Reads go to a replica while it keeps up; it need not be there yet. Must be called on a
    /// runtime that lives as long as the database.
    pub fn with_replica(mut self, settings: replica::Settings) -> Database {
        let replica = Replica::new(settings.clone());
        self.replica = Some(WatchedReplica {
            _monitor: Monitor::start(replica.clone(), self.options.clone(), &settings),
            replica,
            feed: Stats::new("feed_on_replica"),
            post: Stats::new("post_on_replica"),
        });
        self
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
        let replica = self.replica.as_ref().map(|watched| watched.replica.clone());
        let create_posts = Create {
            replica: replica.clone(),
        };
        let like_posts = Like { replica };
        let on_primary = || self.options.clone();
        let feed = dispatcher::start(Feed, on_primary(), feed.clone());
        let post = dispatcher::start(PostById::OnPrimary, on_primary(), post.clone());
        Store {
            replica: self
                .replica
                .as_ref()
                .map(|watched| watched.reads(feed.clone(), post.clone())),
            health: dispatcher::start(Health, on_primary(), health.clone()),
            feed,
            post,
            create: dispatcher::start(create_posts, on_primary(), create.clone()),
            like: dispatcher::start(like_posts, on_primary(), like.clone()),
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
        let of_replica = self.replica.iter().flat_map(|on| [&on.feed, &on.post]);
        [health, feed, post, create, like]
            .into_iter()
            .chain(of_replica)
            .map(Arc::clone)
            .collect()
    }

    pub fn replica_stats(&self) -> Option<&Arc<ReplicaStats>> {
        self.replica.as_ref().map(|on| on.replica.stats())
    }
}

impl WatchedReplica {
    fn reads(&self, feed: Callers<(), Bytes>, post: Callers<i64, Bytes>) -> Reads {
        let replica = || self.replica.clone();
        Reads {
            feed: replica::start(Feed, replica(), feed, self.feed.clone()),
            post: replica::start(PostById::OnReplica, replica(), post, self.post.clone()),
            replica: replica(),
        }
    }
}

impl Store {
    pub async fn health(&self) -> Result<(), ApiError> {
        self.health.ask(()).await
    }

    pub async fn feed(&self) -> Result<Bytes, ApiError> {
        match &self.replica {
            None => self.feed.ask(()).await,
            // On the heap: who has no replica does not carry what reading from one takes.
            Some(on) => Box::pin(on.ask(&on.feed, &self.feed, ())).await,
        }
    }

    pub async fn post(&self, id: i64) -> Result<Bytes, ApiError> {
        match &self.replica {
            None => self.post.ask(id).await,
            Some(on) => Box::pin(on.ask(&on.post, &self.post, id)).await,
        }
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
