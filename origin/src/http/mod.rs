//! The API at a glance.

mod auth;
mod edge_only;
mod failure;
mod feed;
mod feed_cache;
mod health;
mod posts;
mod request_log;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use shared::{ApiError, api};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::validate_request::ValidateRequestHeaderLayer;

pub use edge_only::EdgeOnly;
pub use failure::Failure;
pub use feed_cache::{Creates, FeedCache};
pub use request_log::Peer;

use crate::metrics::{self, Metrics};
use crate::store::Store;

/// What the handlers of one worker share.
pub struct App {
    pub store: Store,
    pub keys: shared::token::Keys,
    pub started: Instant,
    /// `None`: every feed is read for the request that asks for it.
    pub feed_cache: Option<FeedCache>,
}

/// What stands in front of the handlers, where it was asked for.
#[derive(Default)]
pub struct Front {
    pub edge_only: Option<EdgeOnly>,
    pub metrics: Option<&'static Metrics>,
    pub log_requests: bool,
}

const HEALTH: &str = "/health";

type AppState = axum::extract::State<Arc<App>>;

pub fn router(app: Arc<App>, front: Front) -> Router {
    let mut router = Router::new()
        .route(HEALTH, get(health::get))
        .route("/feed", get(feed::get))
        .route("/posts", post(posts::create))
        .route("/posts/{id}", get(posts::get))
        .route("/posts/{id}/like", post(posts::like))
        // An empty id is an id that is none, not another path.
        .route("/posts/", get(posts::get))
        .route("/posts//like", post(posts::like))
        .fallback(async || Failure(ApiError::NotFound))
        .method_not_allowed_fallback(async || Failure(ApiError::MethodNotAllowed));
    // A layer costs every request, even one that does nothing.
    if let Some(edge_only) = front.edge_only {
        router = router.layer(ValidateRequestHeaderLayer::custom(edge_only));
    }
    router = router.layer(CatchPanicLayer::custom(|_| {
        Failure(ApiError::Internal).into_response()
    }));
    if let Some(metrics) = front.metrics {
        router = router.layer(from_fn(move |request: Request, next: Next| {
            metrics::measure(metrics, request, next)
        }));
    }
    if front.log_requests {
        router = router.layer(request_log::layer());
    }
    router.with_state(app)
}

/// A response of the API: its bodies are rendered already.
fn json(body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(axum::body::Body::from(body.into()));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(api::CONTENT_TYPE));
    response
}
