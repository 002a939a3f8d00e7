//! Opening a database that is already there, and refusing what is not ours.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::reader::Reader;
use crate::store::OpenError;

/// How long a write waits for another process's transaction (a backup, a shell) to end.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads come straight from the operating system's page cache, without a copy per page. More than
/// any file of ours, up to SQLite's own limit of 2 GB.
const MMAP_BYTES: i64 = 0x7fff_0000;

/// The log is copied back into the file every so many pages. Up to 4,062 of them readers find a
/// page in the log by one hash table, so a longer log than SQLite's 1,000 pages costs them nothing,
/// and what was changed several times is copied back and synced once.
const CHECKPOINT_PAGES: i64 = 4_000;

const TABLES: [(&str, &[&str]); 3] = [
    ("users", &["id", "username", "created_at"]),
    ("posts", &["id", "user_id", "body", "created_at"]),
    ("likes", &["user_id", "post_id", "created_at"]),
];

pub fn open_for_writing(path: &Path) -> Result<Connection, OpenError> {
    if !path.exists() {
        return Err(OpenError(format!(
            "no database at {0}: create one with `origin seed --to sqlite:{0}`",
            path.display()
        )));
    }
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    check_tables(&connection).map_err(|fault| explain(path, fault))??;
    prepare_for_writing(&connection).map_err(|fault| explain(path, fault))?;
    Ok(connection)
}

pub fn reader(path: &Path) -> Result<Reader, OpenError> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    Reader::new(connection).map_err(|fault| explain(path, fault))
}

fn connect(path: &Path, access: OpenFlags) -> Result<Connection, OpenError> {
    // No mutex inside SQLite: the type system already keeps a connection to one thread at a time.
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "mmap_size", MMAP_BYTES)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        Ok(connection)
    };
    open().map_err(|fault| explain(path, fault))
}

fn check_tables(connection: &Connection) -> rusqlite::Result<Result<(), OpenError>> {
    for (table, wanted) in TABLES {
        let mut columns = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let found: Vec<String> = columns
            .query_map([table], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        if found.is_empty() {
            return Ok(Err(OpenError(format!(
                "the database has no table `{table}`: it is not one of ours, or it was never \
                 seeded; `origin seed --to sqlite:PATH` makes one"
            ))));
        }
        if let Some(missing) = wanted
            .iter()
            .find(|&&name| !found.iter().any(|has| has == name))
        {
            return Ok(Err(OpenError(format!(
                "table `{table}` has no column `{missing}`: the database is not one of ours"
            ))));
        }
    }
    Ok(Ok(()))
}

fn prepare_for_writing(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(16);
    let journal_mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if journal_mode != "wal" {
        // The file system has no shared memory, or the file cannot be written.
        return Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_READONLY),
            Some(format!("journal mode stays {journal_mode}")),
        ));
    }
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    // Finds out now, not at the first write, that the file is read-only.
    connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK")
}

fn explain(path: &Path, fault: rusqlite::Error) -> OpenError {
    let path = path.display();
    let reason = match fault.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => "it is not a SQLite database".to_owned(),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            "it is read-only: this user must be able to write the file and its folder".to_owned()
        }
        Some(ErrorCode::DatabaseBusy) => "another process holds it locked".to_owned(),
        Some(ErrorCode::CannotOpen) => {
            "this user may not open it, or it is not a file (SQLite: unable to open)".to_owned()
        }
        _ => fault.to_string(),
    };
    OpenError(format!("cannot open the database {path}: {reason}"))
}
