//! The obvious thing: a handler a route, a query a request, a pool between them.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use shared::ApiError;
use shared::api::{self, Post};
use shared::post_body::parse_post_body;
use shared::post_id::parse_post_id;
use shared::token::{Keys, User};
use sqlx::PgPool;
use sqlx::Row;
use sqlx::postgres::{PgPoolOptions, PgRow};

struct App {
    pool: PgPool,
    keys: Keys,
    begun: Instant,
}

type Shared = State<Arc<App>>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve())
}

async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let variable = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
    let pool = PgPoolOptions::new()
        .max_connections(10)
        .connect(&variable("DATABASE_URL")?)
        .await?;
    let app = Arc::new(App {
        pool,
        keys: Keys::new(variable("JWT_SECRET")?.as_bytes()),
        begun: Instant::now(),
    });
    let router = Router::new()
        .route("/health", get(health))
        .route("/feed", get(feed))
        .route("/posts", post(create))
        .route("/posts/", get(no_id))
        .route("/posts/{id}", get(read))
        .route("/posts/{id}/like", post(like))
        .route("/posts//like", post(like_no_id))
        .fallback(async || Refused(ApiError::NotFound))
        .method_not_allowed_fallback(async || Refused(ApiError::MethodNotAllowed))
        .layer(DefaultBodyLimit::max(16_384))
        .with_state(app);
    let port: u16 = variable("PORT")?.parse()?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    axum::serve(listener, router).await?;
    Ok(())
}

struct Refused(ApiError);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status()).expect("a status of the API");
        json(status, self.0.json())
    }
}

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        Refused(error)
    }
}

impl From<sqlx::Error> for Refused {
    fn from(error: sqlx::Error) -> Self {
        let is_user_missing = error
            .as_database_error()
            .is_some_and(|error| error.is_foreign_key_violation());
        Refused(match is_user_missing {
            true => ApiError::UnknownUser,
            false => ApiError::Internal,
        })
    }
}

fn json(status: StatusCode, body: impl Into<axum::body::Body>) -> Response {
    let content_type = [(header::CONTENT_TYPE, "application/json")];
    (status, content_type, body.into()).into_response()
}

/// A post with its author and the likes counted.
const POST: &str = "SELECT p.id, p.body, (extract(epoch FROM p.created_at) * 1000)::bigint AS created_ms, \
    u.username, (SELECT count(*) FROM likes l WHERE l.post_id = p.id) AS like_count \
    FROM posts p JOIN users u ON u.id = p.user_id";

struct Found {
    id: i64,
    body: String,
    created_at: String,
    author: String,
    like_count: i64,
}

impl Found {
    fn of(row: &PgRow) -> Result<Found, sqlx::Error> {
        Ok(Found {
            id: row.try_get("id")?,
            body: row.try_get("body")?,
            created_at: shared::timestamp::format_ms(row.try_get("created_ms")?),
            author: row.try_get("username")?,
            like_count: row.try_get("like_count")?,
        })
    }

    fn post(&self) -> Post<'_> {
        Post {
            id: self.id,
            body: &self.body,
            created_at: &self.created_at,
            author: &self.author,
            like_count: self.like_count,
        }
    }
}

async fn health(State(app): Shared) -> Response {
    match sqlx::query("SELECT 1").execute(&app.pool).await {
        Ok(_) => json(
            StatusCode::OK,
            api::render_health_ok(app.begun.elapsed().as_secs()),
        ),
        Err(_) => json(
            StatusCode::SERVICE_UNAVAILABLE,
            api::render_health_degraded("the database does not answer"),
        ),
    }
}

async fn feed(State(app): Shared) -> Result<Response, Refused> {
    let query = format!("{POST} ORDER BY p.created_at DESC, p.id DESC LIMIT 20");
    let rows = sqlx::query(sqlx::AssertSqlSafe(query))
        .fetch_all(&app.pool)
        .await?;
    let found = rows.iter().map(Found::of).collect::<Result<Vec<_>, _>>()?;
    let posts: Vec<Post> = found.iter().map(Found::post).collect();
    Ok(json(StatusCode::OK, api::render_feed(&posts)))
}

async fn read(State(app): Shared, Path(id): Path<String>) -> Result<Response, Refused> {
    let id = parse_post_id(&id)?;
    let query = format!("{POST} WHERE p.id = $1");
    let row = sqlx::query(sqlx::AssertSqlSafe(query))
        .bind(id)
        .fetch_optional(&app.pool)
        .await?
        .ok_or(ApiError::PostNotFound)?;
    Ok(json(
        StatusCode::OK,
        api::render_post(&Found::of(&row)?.post()),
    ))
}

async fn create(
    State(app): Shared,
    headers: HeaderMap,
    body: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> Result<Response, Refused> {
    let user = user(&app, &headers)?;
    let body = body.map_err(|_| ApiError::RequestBodyTooLarge)?;
    let text = parse_post_body(&body)?;
    if text.contains('\0') {
        return Err(ApiError::BodyContainsNul.into());
    }
    let row = sqlx::query(
        "INSERT INTO posts (user_id, body) VALUES ($1, $2) \
         RETURNING id, (extract(epoch FROM created_at) * 1000)::bigint AS created_ms",
    )
    .bind(user.id)
    .bind(&text)
    .fetch_one(&app.pool)
    .await?;
    let post = Post {
        id: row.try_get("id")?,
        body: &text,
        created_at: &shared::timestamp::format_ms(row.try_get("created_ms")?),
        author: &user.username,
        like_count: 0,
    };
    Ok(json(StatusCode::CREATED, api::render_post(&post)))
}

async fn like(
    State(app): Shared,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    let user = user(&app, &headers)?;
    let id = parse_post_id(&id)?;
    sqlx::query("SELECT 1 FROM posts WHERE id = $1")
        .bind(id)
        .fetch_optional(&app.pool)
        .await?
        .ok_or(ApiError::PostNotFound)?;
    let inserted =
        sqlx::query("INSERT INTO likes (user_id, post_id) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(user.id)
            .bind(id)
            .execute(&app.pool)
            .await?
            .rows_affected();
    let status = match inserted {
        1 => StatusCode::CREATED,
        _ => StatusCode::OK,
    };
    Ok(json(status, api::render_like(id, inserted == 0)))
}

async fn no_id() -> Refused {
    Refused(ApiError::InvalidPostId)
}

async fn like_no_id(State(app): Shared, headers: HeaderMap) -> Result<Response, Refused> {
    user(&app, &headers)?;
    Err(ApiError::InvalidPostId.into())
}

fn user(app: &App, headers: &HeaderMap) -> Result<User, ApiError> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let header = headers.get(header::AUTHORIZATION);
    app.keys
        .authenticate(header.map(|value| value.as_bytes()), now.as_millis() as i64)
}
