//! Writes the dataset into an SQLite file, and hashes what such a file holds.
//!
//! The database is built in a temporary file beside its target and moved into place when it is
//! complete and on disk. Until then nothing that exists is touched, so the build itself needs no
//! journal. What a kill -9 leaves behind, the next run removes.

use std::{
    ffi::OsString,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, params};
use shared::timestamp::format_ms;

use super::{
    Error, content_hash::ContentHash, dataset::Dataset, interrupt::Interrupt, progress::Progress,
};

const TABLES: &str = include_str!("sqlite_tables.sql");
const INDEXES: &str = include_str!("sqlite_indexes.sql");

/// Bounds the memory of a build at any scale; the sorter that builds an index keeps to it as well.
const CACHE_KIB: u32 = 64 * 1024;

/// Whether there is a database of ours with rows in it. Anything else that stands there, apart from
/// an empty file or empty tables, is an error: it is not ours to replace.
pub fn holds_rows(path: &Path) -> Result<bool, Error> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(Error::io(path, error)),
        Ok(found) if !found.is_file() => return Err(Error::NotOurs),
        Ok(_) => {}
    }
    let connection = open_existing(path)?;
    let tables = table_names(&connection).map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => Error::NotOurs,
        _ => error.into(),
    })?;
    if !tables
        .iter()
        .all(|name| ["users", "posts", "likes"].contains(&name.as_str()))
    {
        return Err(Error::NotOurs);
    }
    for table in tables {
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {table})");
        if connection.query_row(&sql, (), |row| row.get(0))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn table_names(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'",
        )?
        .query_map((), |row| row.get(0))?
        .collect()
}

/// Builds the database and puts it at `target`, in place of what stands there.
pub fn write(
    target: &Path,
    dataset: &Dataset,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<(), Error> {
    // A link keeps pointing where it does: the file behind it is what is replaced.
    let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
    if target.exists() {
        retire(&target)?;
    }
    let build = TemporaryFile::create(&target, ".seeding")?;
    let packed = TemporaryFile::create(&target, ".seeding-packed")?;

    let result = fill(&build.path, &packed.path, dataset, progress, interrupt);
    // SQLite calls an interrupted statement an error of its own.
    interrupt.check()?;
    result?;

    progress.step("moving into place")?;
    packed
        .file
        .sync_all()
        .map_err(|error| Error::io(&packed.path, error))?;
    if target.exists() {
        retire(&target)?;
    }
    interrupt.check()?;
    packed.move_to(&target)
}

fn fill(
    build: &Path,
    packed: &Path,
    dataset: &Dataset,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<(), Error> {
    let connection = Connection::open(build)?;
    interrupt.also_ends(&connection);
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF;
             PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -{CACHE_KIB};
             BEGIN; {TABLES}"
    ))?;

    insert_rows(&connection, dataset, progress)?;

    progress.step("indexes")?;
    connection.execute_batch(INDEXES)?;
    // Some builds of SQLite also sample the rows, into a table that not every reader's build knows
    // and that makes those which do plan a statement again for every new parameter.
    connection.execute_batch("COMMIT; ANALYZE; DROP TABLE IF EXISTS sqlite_stat4")?;

    progress.step("vacuum")?;
    let packed_name = packed.to_str().ok_or_else(|| Error::NotUtf8)?;
    connection.execute("VACUUM INTO ?", [packed_name])?;
    drop(connection);

    let connection = Connection::open(packed)?;
    connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0))?;
    connection.close().map_err(|(_, error)| error.into())
}

fn insert_rows(
    connection: &Connection,
    dataset: &Dataset,
    progress: &Progress,
) -> Result<(), Error> {
    progress.step("users")?;
    let mut insert =
        connection.prepare("INSERT INTO users (id, username, created_at) VALUES (?, ?, ?)")?;
    for user in dataset.users() {
        insert.execute(params![user.id, user.username, format_ms(user.created_ms)])?;
        progress.row()?;
    }

    progress.step("posts")?;
    let mut insert = connection
        .prepare("INSERT INTO posts (id, user_id, body, created_at) VALUES (?, ?, ?, ?)")?;
    for post in dataset.posts() {
        insert.execute(params![
            post.id,
            post.user_id,
            post.body,
            format_ms(post.created_ms)
        ])?;
        progress.row()?;
    }

    progress.step("likes")?;
    // They come by post, but their primary key begins with the user: inserted as they come, each
    // would go to another page of its index, which at a large scale is another page of the disk.
    // So they are sorted first; SQLite does that in files where memory does not suffice.
    connection.execute_batch("CREATE TABLE unsorted_likes (user_id, post_id, created_at)")?;
    let mut insert = connection.prepare("INSERT INTO unsorted_likes VALUES (?, ?, ?)")?;
    for like in dataset.likes() {
        insert.execute(params![
            like.user_id,
            like.post_id,
            format_ms(like.created_ms)
        ])?;
        progress.row()?;
    }
    drop(insert);
    progress.step("sorting likes")?;
    connection.execute_batch(
        "INSERT INTO likes (user_id, post_id, created_at)
         SELECT user_id, post_id, created_at FROM unsorted_likes ORDER BY user_id, post_id;
         DROP TABLE unsorted_likes",
    )?;
    Ok(())
}

/// Makes sure that nobody uses the database at `path` and that its write-ahead log is folded into
/// it: a log left behind would be taken for the log of the database that comes in its place.
fn retire(path: &Path) -> Result<(), Error> {
    let connection = open_existing(path)?;
    let in_use = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy) => Error::InUse,
        _ => error.into(),
    };
    connection
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; ROLLBACK")
        .map_err(in_use)?;
    connection.close().map_err(|(_, error)| error)?;
    if with_suffix(path, "-wal").exists() {
        return Err(Error::InUse);
    }
    Ok(())
}

/// Never creates a file.
fn open_existing(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // Long enough for another's last write, too short to seem stuck.
    connection.busy_timeout(Duration::from_millis(500))?;
    Ok(connection)
}

pub fn content_sha256(
    path: &Path,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<String, Error> {
    let connection = open_existing(path)?;
    interrupt.also_ends(&connection);
    let result = hash_rows(&connection, progress);
    interrupt.check()?;
    result
}

fn hash_rows(connection: &Connection, progress: &Progress) -> Result<String, Error> {
    let mut hash = ContentHash::default();
    // One transaction: the three tables as of one moment.
    connection.execute_batch(&format!("PRAGMA cache_size = -{CACHE_KIB}; BEGIN"))?;

    progress.step("hashing users")?;
    let mut users = connection.prepare("SELECT id, username, created_at FROM users ORDER BY id")?;
    let mut rows = users.query(())?;
    while let Some(row) = rows.next()? {
        hash.user(row.get(0)?, text(row, 1)?, text(row, 2)?);
        progress.row()?;
    }

    progress.step("hashing posts")?;
    let mut posts =
        connection.prepare("SELECT id, user_id, body, created_at FROM posts ORDER BY id")?;
    let mut rows = posts.query(())?;
    while let Some(row) = rows.next()? {
        hash.post(row.get(0)?, row.get(1)?, text(row, 2)?, text(row, 3)?);
        progress.row()?;
    }

    progress.step("hashing likes")?;
    // The plus signs keep SQLite from following the index on post_id, and so from fetching each row
    // from another page: it sorts, in files where memory does not suffice.
    let mut likes = connection
        .prepare("SELECT user_id, post_id, created_at FROM likes ORDER BY +post_id, +user_id")?;
    let mut rows = likes.query(())?;
    while let Some(row) = rows.next()? {
        hash.like(row.get(0)?, row.get(1)?, text(row, 2)?);
        progress.row()?;
    }
    Ok(hash.finish())
}

fn text<'a>(row: &'a rusqlite::Row<'_>, column: usize) -> rusqlite::Result<&'a str> {
    Ok(row.get_ref(column)?.as_str()?)
}

/// A file beside the target, gone when this is dropped unless it was moved into place.
struct TemporaryFile {
    path: PathBuf,
    /// Locked: two runs for one target do not write over each other.
    file: File,
}

impl TemporaryFile {
    fn create(target: &Path, suffix: &str) -> Result<Self, Error> {
        let path = with_suffix(target, suffix);
        let io = |error| Error::io(&path, error);
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let file = file.map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Seeding),
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        // What an earlier run left when it was killed.
        file.set_len(0).map_err(io)?;
        Ok(Self { path, file })
    }

    fn move_to(self, target: &Path) -> Result<(), Error> {
        fs::rename(&self.path, target).map_err(|error| Error::io(target, error))?;
        let folder = match target.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        // The new name, too, must survive a power cut.
        File::open(folder)
            .and_then(|f| f.sync_all())
            .map_err(|error| Error::io(folder, error))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // After a move there is nothing by this name.
        let _ = fs::remove_file(&self.path);
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}
