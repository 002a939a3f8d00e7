//! `ApiError` as a response.

use axum::response::{IntoResponse, Response};
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use shared::ApiError;

use super::json;

/// What a handler answers when it cannot do what was asked.
pub struct Failure(pub ApiError);

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Failure {
        Failure(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = json(self.0.json());
        *response.status_mut() =
            StatusCode::from_u16(self.0.status()).expect("every status of ours is a valid one");
        if let Some(seconds) = self.0.retry_after_s() {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
