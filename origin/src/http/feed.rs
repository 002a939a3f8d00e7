use axum::extract::State;
use axum::response::Response;

use super::{AppState, Failure, json};

pub async fn get(State(app): AppState) -> Result<Response, Failure> {
    Ok(json(app.store.feed().await?))
}
