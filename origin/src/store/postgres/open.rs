//! Finding out before the first request whether this database can serve, in one line if not.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection, Error};
use tokio::time::timeout;

use super::fault::{describe, sqlstate};
use super::schema;
use crate::store::OpenError;
use crate::store::target::Target;

const OPEN_LIMIT: Duration = Duration::from_secs(10);

/// PostgreSQL 14.
const OLDEST_VERSION: u32 = 140_000;

/// After this the server gives a statement up.
pub const STATEMENT_LIMIT: Duration = Duration::from_secs(5);

/// The settings of every connection that serves.
pub fn for_serving(options: PgConnectOptions, statement_limit: Duration) -> PgConnectOptions {
    let statement_limit_ms = statement_limit.as_millis().to_string();
    options
        .application_name("origin")
        .options([
            // A reply means that the write is on disk, whatever the server's default is.
            ("synchronous_commit", "on"),
            ("statement_timeout", &statement_limit_ms),
            // Five statements, each planned once for a connection.
            ("plan_cache_mode", "force_generic_plan"),
            // Every statement touches a handful of rows by index. Nested loops also keep the order
            // of the arrays that come in, on which writes rely for not blocking each other.
            ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"),
            ("jit", "off"),
        ])
        .disable_statement_logging()
}

/// Objects to what cannot be served from.
pub async fn check(options: &PgConnectOptions) -> Result<(), OpenError> {
    let server = Target::Postgres(Box::new(options.clone()));
    match timeout(OPEN_LIMIT, connect_and_check(options)).await {
        Ok(Ok(None)) => Ok(()),
        Ok(Ok(Some(objection))) => Err(objection),
        Ok(Err(fault)) => Err(explain(&fault)),
        Err(_) => Err(format!(
            "no answer within {} s: check host and port",
            OPEN_LIMIT.as_secs()
        )),
    }
    .map_err(|reason| OpenError(format!("cannot serve from {server}: {reason}")))
}

/// Brings the tables to this version's form, which may mean making them.
pub async fn migrate(options: &PgConnectOptions) -> Result<(), OpenError> {
    let migrate = async {
        let mut connection = options.connect().await.map_err(|fault| explain(&fault))?;
        let outcome = schema::migrate(&mut connection).await;
        let _ = connection.close().await;
        outcome.map_err(|fault| fault.to_string())
    };
    let server = Target::Postgres(Box::new(options.clone()));
    migrate
        .await
        .map_err(|reason| OpenError(format!("cannot migrate {server}: {reason}")))
}

async fn connect_and_check(options: &PgConnectOptions) -> Result<Option<String>, Error> {
    let mut connection = options.connect().await?;
    let objection = objection(&mut connection).await?;
    connection.close().await?;
    Ok(objection)
}

/// What keeps us from serving from this database.
async fn objection(connection: &mut PgConnection) -> Result<Option<String>, Error> {
    let version = connection.server_version_num().unwrap_or(0);
    if version < OLDEST_VERSION {
        let (found, needed) = (version / 10_000, OLDEST_VERSION / 10_000);
        return Ok(Some(format!(
            "the server is PostgreSQL {found}; {needed} or newer is needed"
        )));
    }
    if let Some(objection) = schema::objection(connection).await? {
        return Ok(Some(objection));
    }
    let read_only: String = sqlx::query_scalar("SHOW transaction_read_only")
        .fetch_one(&mut *connection)
        .await?;
    if read_only == "on" {
        return Ok(Some(
            "it is read-only (a standby, or set so): name the primary".to_owned(),
        ));
    }
    let may_write: bool = sqlx::query_scalar(
        "SELECT has_table_privilege('users', 'SELECT') \
            AND has_table_privilege('posts', 'SELECT') \
            AND has_table_privilege('posts', 'INSERT') \
            AND has_table_privilege('posts', 'UPDATE') \
            AND has_table_privilege('likes', 'SELECT') \
            AND has_table_privilege('likes', 'INSERT') \
            AND has_sequence_privilege(pg_get_serial_sequence('posts', 'id'), 'USAGE')",
    )
    .fetch_one(connection)
    .await?;
    Ok((!may_write).then(|| {
        "this user lacks rights on its tables: grant SELECT on users, SELECT, INSERT, UPDATE on \
         posts, SELECT, INSERT on likes"
            .to_owned()
    }))
}

fn explain(fault: &Error) -> String {
    let advice = match sqlstate(fault) {
        Some("28P01" | "28000") => "check user and password in the URL",
        Some("3D000") => "create it, or name another in the URL",
        Some("53300") => "the server has no connection left: raise max_connections",
        Some("57P03") => "try again when the server has started",
        Some(_) => "see the server's log",
        None if matches!(fault, Error::Io(_)) => "is the server running there?",
        None => "check the URL",
    };
    format!("{}: {advice}", describe(fault))
}
