//! Writes the dataset into PostgreSQL, and hashes what such a database holds.
//!
//! Everything is one transaction: until it commits, readers see what was there before, and if this
//! process or the server dies, what was there before is what stays.

use shared::timestamp::format_ms;
use sqlx::{
    AssertSqlSafe, Connection, PgConnection,
    postgres::{PgConnectOptions, PgCopyIn},
};

use super::{Error, content_hash::ContentHash, dataset::Dataset, progress::Progress};
use crate::store::postgres::schema;

/// Connects and brings the tables to this version.
pub async fn open(options: &PgConnectOptions) -> Result<PgConnection, Error> {
    let mut connection = PgConnection::connect_with(options).await?;
    let (ours, others): (bool, bool) = sqlx::query_as(
        "SELECT to_regclass('_sqlx_migrations') IS NOT NULL,
                coalesce(to_regclass('users'), to_regclass('posts'), to_regclass('likes')) IS NOT NULL",
    )
    .fetch_one(&mut connection)
    .await?;
    if others && !ours {
        return Err(Error::NotOurs);
    }
    schema::migrate(&mut connection).await?;
    Ok(connection)
}

pub async fn holds_rows(connection: &mut PgConnection) -> Result<bool, Error> {
    let holds_rows = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM users) OR EXISTS (SELECT FROM posts) OR EXISTS (SELECT FROM likes)",
    );
    Ok(holds_rows.fetch_one(connection).await?)
}

pub async fn write(
    connection: &mut PgConnection,
    dataset: &Dataset,
    progress: &Progress<'_>,
) -> Result<(), Error> {
    let mut transaction = connection.begin().await?;
    // If this process dies, the server gives up soon, even in the middle of a long statement.
    execute(
        &mut transaction,
        "SET LOCAL client_connection_check_interval = '1s'",
    )
    .await?;
    // Also for an empty table: rows copied into a table truncated in the same transaction can be
    // written frozen, which spares the server a second pass over them later.
    execute(&mut transaction, "TRUNCATE users, posts, likes").await?;
    let foreign_keys = drop_foreign_keys(&mut transaction).await?;

    progress.step("users")?;
    let mut copy = Copy::begin(&mut transaction, "users (id, username, created_at)", 3).await?;
    for user in dataset.users() {
        copy.row()
            .int8(user.id.into())
            .text(&user.username)
            .timestamp(user.created_ms);
        copy.flush_if_full().await?;
        progress.row()?;
    }
    copy.finish().await?;

    progress.step("posts")?;
    let columns = "posts (id, user_id, author, body, created_at, like_count)";
    let mut copy = Copy::begin(&mut transaction, columns, 6).await?;
    for post in dataset.posts() {
        copy.row()
            .int8(post.id.into())
            .int8(post.user_id.into())
            .text(&dataset.username(post.user_id))
            .text(&post.body)
            .timestamp(post.created_ms)
            .int4(post.like_count as i32);
        copy.flush_if_full().await?;
        progress.row()?;
    }
    copy.finish().await?;

    progress.step("likes")?;
    let mut copy = Copy::begin(&mut transaction, "likes (user_id, post_id, created_at)", 3).await?;
    for like in dataset.likes() {
        copy.row()
            .int8(like.user_id.into())
            .int8(like.post_id.into())
            .timestamp(like.created_ms);
        copy.flush_if_full().await?;
        progress.row()?;
    }
    copy.finish().await?;

    progress.step("foreign keys")?;
    for put_back in foreign_keys {
        execute(&mut transaction, &put_back).await?;
    }
    execute(
        &mut transaction,
        "SELECT setval(pg_get_serial_sequence('posts', 'id'), greatest(max(id), 1), max(id) IS NOT NULL) FROM posts",
    )
    .await?;
    progress.step("commit")?;
    transaction.commit().await?;

    progress.step("analyze")?;
    execute(connection, "VACUUM (ANALYZE) users, posts, likes").await
}

async fn execute(connection: &mut PgConnection, sql: &str) -> Result<(), Error> {
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(connection)
        .await?;
    Ok(())
}

/// Takes the foreign keys away and returns what puts each back.
///
/// Checking them row by row would take longer than all the rest; added again at the end, each is
/// checked by one join.
async fn drop_foreign_keys(connection: &mut PgConnection) -> Result<Vec<String>, Error> {
    let found: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT conrelid::regclass::text, quote_ident(conname), pg_get_constraintdef(oid)
         FROM pg_constraint
         WHERE contype = 'f'
           AND conrelid IN ('users'::regclass, 'posts'::regclass, 'likes'::regclass)",
    )
    .fetch_all(&mut *connection)
    .await?;
    let mut put_back = Vec::new();
    for (table, name, definition) in found {
        execute(
            connection,
            &format!("ALTER TABLE {table} DROP CONSTRAINT {name}"),
        )
        .await?;
        put_back.push(format!(
            "ALTER TABLE {table} ADD CONSTRAINT {name} {definition}"
        ));
    }
    Ok(put_back)
}

/// COPY in PostgreSQL's binary format, which spares the server parsing numbers and times.
struct Copy<'c> {
    stream: PgCopyIn<&'c mut PgConnection>,
    columns: i16,
    pending: Vec<u8>,
}

const PENDING_BYTES: usize = 64 * 1024;

impl<'c> Copy<'c> {
    async fn begin(
        connection: &'c mut PgConnection,
        columns: &str,
        count: i16,
    ) -> Result<Self, Error> {
        let sql = format!("COPY {columns} FROM STDIN (FORMAT binary, FREEZE true)");
        let stream = connection.copy_in_raw(&sql).await?;
        let mut pending = Vec::with_capacity(PENDING_BYTES + 4096);
        pending.extend_from_slice(b"PGCOPY\n\xff\r\n\0");
        pending.extend_from_slice(&[0; 8]); // no flags, no header extension
        Ok(Self {
            stream,
            columns: count,
            pending,
        })
    }

    fn row(&mut self) -> &mut Self {
        self.pending.extend_from_slice(&self.columns.to_be_bytes());
        self
    }

    fn int4(&mut self, value: i32) -> &mut Self {
        self.field(&value.to_be_bytes())
    }

    fn int8(&mut self, value: i64) -> &mut Self {
        self.field(&value.to_be_bytes())
    }

    fn text(&mut self, value: &str) -> &mut Self {
        self.field(value.as_bytes())
    }

    /// The server counts microseconds, from the year 2000.
    fn timestamp(&mut self, unix_ms: i64) -> &mut Self {
        const Y2000_MS: i64 = 946_684_800_000;
        self.int8((unix_ms - Y2000_MS) * 1_000)
    }

    fn field(&mut self, bytes: &[u8]) -> &mut Self {
        self.pending
            .extend_from_slice(&(bytes.len() as i32).to_be_bytes());
        self.pending.extend_from_slice(bytes);
        self
    }

    async fn flush_if_full(&mut self) -> Result<(), Error> {
        if self.pending.len() >= PENDING_BYTES {
            self.stream.send(self.pending.as_slice()).await?;
            self.pending.clear();
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<(), Error> {
        self.pending.extend_from_slice(&(-1i16).to_be_bytes());
        self.stream.send(self.pending.as_slice()).await?;
        self.stream.finish().await?;
        Ok(())
    }
}

pub async fn content_sha256(
    connection: &mut PgConnection,
    progress: &Progress<'_>,
) -> Result<String, Error> {
    let mut hash = ContentHash::default();
    let mut transaction = connection.begin().await?;
    // The three tables as of one moment. Cursors, so that neither side holds more than a batch.
    execute(
        &mut transaction,
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;
         DECLARE users_by_id NO SCROLL CURSOR FOR
            SELECT id, username, (extract(epoch FROM created_at) * 1000)::bigint
            FROM users ORDER BY id;
         DECLARE posts_by_id NO SCROLL CURSOR FOR
            SELECT id, user_id, body, (extract(epoch FROM created_at) * 1000)::bigint
            FROM posts ORDER BY id;
         DECLARE likes_by_post_and_user NO SCROLL CURSOR FOR
            SELECT user_id, post_id, (extract(epoch FROM created_at) * 1000)::bigint
            FROM likes ORDER BY post_id, user_id",
    )
    .await?;

    progress.step("hashing users")?;
    loop {
        let users: Vec<(i64, String, i64)> = sqlx::query_as("FETCH 5000 FROM users_by_id")
            .fetch_all(&mut *transaction)
            .await?;
        if users.is_empty() {
            break;
        }
        for (id, username, created_ms) in users {
            hash.user(id, &username, &format_ms(created_ms));
            progress.row()?;
        }
    }

    progress.step("hashing posts")?;
    loop {
        let posts: Vec<(i64, i64, String, i64)> = sqlx::query_as("FETCH 5000 FROM posts_by_id")
            .fetch_all(&mut *transaction)
            .await?;
        if posts.is_empty() {
            break;
        }
        for (id, user_id, body, created_ms) in posts {
            hash.post(id, user_id, &body, &format_ms(created_ms));
            progress.row()?;
        }
    }

    progress.step("hashing likes")?;
    loop {
        let likes: Vec<(i64, i64, i64)> = sqlx::query_as("FETCH 5000 FROM likes_by_post_and_user")
            .fetch_all(&mut *transaction)
            .await?;
        if likes.is_empty() {
            break;
        }
        for (user_id, post_id, created_ms) in likes {
            hash.like(user_id, post_id, &format_ms(created_ms));
            progress.row()?;
        }
    }
    Ok(hash.finish())
}
