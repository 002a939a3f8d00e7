//! The tables, as versioned migrations inside the binary.

use sqlx::migrate::MigrateError;
use sqlx::{Error, PgConnection};

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!();

/// Brings the database to this version's tables; does nothing where they are already there.
/// Several servers that start at once take turns by an advisory lock.
pub async fn migrate(connection: &mut PgConnection) -> Result<(), MigrateError> {
    MIGRATIONS.run(connection).await
}

/// What keeps this version from working with the tables it finds, if anything does. Reads only.
pub async fn objection(connection: &mut PgConnection) -> Result<Option<String>, Error> {
    let known: bool = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
        .bind(&*MIGRATIONS.table_name)
        .fetch_one(&mut *connection)
        .await?;
    if !known {
        return Ok(Some(
            "it does not hold our tables: make them with `origin migrate`, or with their rows with \
             `origin seed`"
                .to_owned(),
        ));
    }
    let applied: Vec<(i64, Vec<u8>, bool)> =
        sqlx::query_as("SELECT version, checksum, success FROM _sqlx_migrations")
            .fetch_all(connection)
            .await?;
    let is_applied = |version: i64, checksum: &[u8]| {
        applied
            .iter()
            .any(|(v, sum, success)| *v == version && *success && sum == checksum)
    };
    for migration in MIGRATIONS.iter() {
        if !is_applied(migration.version, &migration.checksum) {
            return Ok(Some(format!(
                "its tables lack migration {}: run `origin migrate`",
                migration.version
            )));
        }
    }
    Ok(applied
        .iter()
        .map(|(version, ..)| *version)
        .find(|&version| !MIGRATIONS.version_exists(version))
        .map(|version| {
            format!("its tables are newer (migration {version}) than this program: run a newer one")
        }))
}
