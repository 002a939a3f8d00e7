//! The tables, as versioned migrations inside the binary.

use sqlx::{PgConnection, migrate::MigrateError};

static MIGRATIONS: sqlx::migrate::Migrator = sqlx::migrate!();

/// Brings the database to this version's tables; does nothing where they are already there.
/// Several servers that start at once take turns by an advisory lock.
pub async fn migrate(connection: &mut PgConnection) -> Result<(), MigrateError> {
    MIGRATIONS.run(connection).await
}
