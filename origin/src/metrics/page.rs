use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use prometheus::TEXT_FORMAT;
use tracing::error;

use super::Metrics;

/// `GET /metrics`, for a listener that the public does not reach.
pub fn router(metrics: &'static Metrics) -> Router {
    Router::new().route("/metrics", get(async || page(metrics)))
}

fn page(metrics: &Metrics) -> Response {
    match metrics.text() {
        Ok(text) => ([(CONTENT_TYPE, TEXT_FORMAT)], text).into_response(),
        Err(fault) => {
            error!(%fault, "cannot show the metrics");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
