//! Who is asking.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::FromRequestParts;
use http::header::AUTHORIZATION;
use http::request::Parts;
use shared::token::User;

use super::{App, Failure};

/// The user of a token that was verified for this very request.
pub struct Authenticated(pub User);

impl FromRequestParts<Arc<App>> for Authenticated {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let authorization = parts
            .headers
            .get(AUTHORIZATION)
            .map(|value| value.as_bytes());
        let now_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_millis());
        Ok(Authenticated(
            app.keys.authenticate(authorization, now_ms as i64)?,
        ))
    }
}
