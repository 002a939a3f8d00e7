use std::convert::Infallible;

use axum::extract::{FromRequestParts, State};
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use shared::api::{self, Post};
use shared::post_body::parse_post_body;
use shared::post_id::parse_post_id;

use super::auth::Authenticated;
use super::{AppState, Failure, json};
use crate::store::NewPost;

pub async fn get(State(app): AppState, id: IdSegment) -> Result<Response, Failure> {
    Ok(json(app.store.post(parse_post_id(&id.0)?).await?))
}

pub async fn create(
    State(app): AppState,
    Authenticated(user): Authenticated,
    request_body: Bytes,
) -> Result<Response, Failure> {
    let body = parse_post_body(&request_body)?;
    let created = app
        .store
        .create(NewPost {
            user_id: user.id,
            body: body.clone(),
        })
        .await?;
    if let Some(cache) = &app.feed_cache {
        cache.post_created();
    }
    let post = Post {
        id: created.id,
        body: &body,
        created_at: &created.created_at,
        author: &user.username,
        like_count: 0,
    };
    Ok(with_status(
        StatusCode::CREATED,
        json(api::render_post(&post)),
    ))
}

pub async fn like(
    State(app): AppState,
    Authenticated(user): Authenticated,
    id: IdSegment,
) -> Result<Response, Failure> {
    let post_id = parse_post_id(&id.0)?;
    let already_liked = app.store.like(user.id, post_id).await?;
    let status = if already_liked {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    Ok(with_status(
        status,
        json(api::render_like(post_id, already_liked)),
    ))
}

fn with_status(status: StatusCode, mut response: Response) -> Response {
    *response.status_mut() = status;
    response
}

/// The `:id` of the path as it was sent: percent-encoding does not make a number of what is none.
pub struct IdSegment(String);

impl<S: Sync> FromRequestParts<S> for IdSegment {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let segment = parts.uri.path().split('/').nth(2).unwrap_or_default();
        Ok(IdSegment(segment.to_owned()))
    }
}
