use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use shared::api;

use super::{AppState, json};

pub async fn get(State(app): AppState) -> Response {
    match app.store.health().await {
        Ok(()) => json(api::render_health_ok(app.started.elapsed().as_secs())),
        Err(reason) => {
            let mut response = json(api::render_health_degraded(&reason));
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            response
        }
    }
}
