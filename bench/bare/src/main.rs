//! What the framework alone costs: axum on one thread, every answer a constant of the size
//! a real one has. No token is checked, no database is asked.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[derive(Parser)]
struct Sizes {
    #[arg(long)]
    port: u16,
    #[arg(long, default_value_t = 40)]
    health_bytes: usize,
    #[arg(long, default_value_t = 5102)]
    feed_bytes: usize,
    #[arg(long, default_value_t = 240)]
    post_bytes: usize,
    #[arg(long, default_value_t = 55)]
    like_bytes: usize,
    #[arg(long, default_value_t = 200)]
    create_bytes: usize,
}

fn main() -> std::io::Result<()> {
    let sizes = Sizes::parse();
    allow_many_connections();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    runtime.block_on(async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, sizes.port));
        let listener = tokio::net::TcpListener::bind(address).await?;
        axum::serve(listener, router(&sizes)).await
    })
}

fn router(sizes: &Sizes) -> Router {
    let health = constant(sizes.health_bytes);
    let feed = constant(sizes.feed_bytes);
    let single = constant(sizes.post_bytes);
    let liked = constant(sizes.like_bytes);
    let created = constant(sizes.create_bytes);
    Router::new()
        .route("/health", get(async move || json(StatusCode::OK, health)))
        .route("/feed", get(async move || json(StatusCode::OK, feed)))
        .route(
            "/posts/{id}",
            get(async move |_: Path<u64>| json(StatusCode::OK, single)),
        )
        .route(
            "/posts/{id}/like",
            post(async move |_: Path<u64>, _: HeaderMap| json(StatusCode::CREATED, liked)),
        )
        .route(
            "/posts",
            post(async move |_: HeaderMap, _: Bytes| json(StatusCode::CREATED, created)),
        )
}

fn constant(bytes: usize) -> Bytes {
    Bytes::from(vec![b'x'; bytes])
}

fn json(status: StatusCode, body: Bytes) -> impl IntoResponse {
    (status, [(header::CONTENT_TYPE, "application/json")], body)
}

fn allow_many_connections() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: maximum,
        maximum,
    };
    // Without it fewer connections fit, and the one who opens too many sees that.
    let _ = setrlimit(Resource::Nofile, limit);
}
