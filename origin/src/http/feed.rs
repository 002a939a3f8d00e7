use std::convert::Infallible;

use axum::extract::{FromRequestParts, State};
use axum::response::Response;
use bytes::Bytes;
use http::header::{ETAG, IF_NONE_MATCH};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use shared::etag;

use super::{AppState, Failure, json};

pub async fn get(State(app): AppState, known: KnownTags) -> Result<Response, Failure> {
    let body = match &app.feed_cache {
        None => app.store.feed().await?,
        Some(cache) => cache.get(app.store.feed()).await?,
    };
    // Only who asks whether the feed has changed pays for the hash that answers it.
    if known.0.is_empty() {
        Ok(json(body))
    } else {
        Ok(if_changed(&known, body))
    }
}

/// The body with its tag, or 304 when the client has it already.
fn if_changed(known: &KnownTags, body: Bytes) -> Response {
    let tag = etag::of(&body);
    let mut response = if known.contain(&tag) {
        let mut response = Response::default();
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        json(body)
    };
    let tag = HeaderValue::try_from(tag).expect("a tag is visible ASCII");
    response.headers_mut().insert(ETAG, tag);
    response
}

/// The values of `If-None-Match`.
pub struct KnownTags(Vec<HeaderValue>);

impl KnownTags {
    fn contain(&self, tag: &str) -> bool {
        self.0
            .iter()
            .filter_map(|value| value.to_str().ok())
            .any(|tags| etag::matches(tags, tag))
    }
}

impl<S: Sync> FromRequestParts<S> for KnownTags {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let values = parts.headers.get_all(IF_NONE_MATCH);
        Ok(KnownTags(values.iter().cloned().collect()))
    }
}
