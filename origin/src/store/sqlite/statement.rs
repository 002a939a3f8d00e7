//! A prepared statement, on SQLite's own interface.
//!
//! The reads are most of what this server does, and a feed steps through a hundred rows. Through
//! rusqlite each statement is looked up in a cache, and each row and column passes several checks
//! and layers; the figures are in docs/sqlite-design.md. Here is what the reads need of SQLite,
//! and nothing else.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

use rusqlite::{Connection, Result, ffi};

/// Belongs to one connection, and is used by one thread at a time, the one that uses the connection.
pub struct Statement {
    raw: NonNull<ffi::sqlite3_stmt>,
}

/// A statement that runs. When it is dropped the statement is ready to run again.
pub struct Rows<'s> {
    statement: &'s mut Statement,
}

impl Statement {
    pub fn prepare(connection: &Connection, sql: &str) -> Result<Statement> {
        let mut raw = std::ptr::null_mut();
        let bytes = c_int::try_from(sql.len()).expect("our statements are short");
        // SAFETY: the connection is open as long as it is borrowed; `sql` is valid for `bytes`
        // bytes, which is all that SQLite reads of it; a null tail means that it is not asked for.
        let code = unsafe {
            ffi::sqlite3_prepare_v3(
                connection.handle(),
                sql.as_ptr().cast(),
                bytes,
                ffi::SQLITE_PREPARE_PERSISTENT,
                &mut raw,
                std::ptr::null_mut(),
            )
        };
        match NonNull::new(raw) {
            Some(raw) if code == ffi::SQLITE_OK => Ok(Statement { raw }),
            // SAFETY: as above.
            _ => Err(unsafe { fault(connection.handle(), code) }),
        }
    }

    /// Runs it with these numbers for `?1`, `?2` and so on.
    pub fn query<const N: usize>(&mut self, parameters: [i64; N]) -> Result<Rows<'_>> {
        for (number, parameter) in (1..).zip(parameters) {
            // SAFETY: the statement is prepared, and not running: `Rows` borrows it while it does.
            let code = unsafe { ffi::sqlite3_bind_int64(self.raw.as_ptr(), number, parameter) };
            self.check(code, ffi::SQLITE_OK)?;
        }
        Ok(Rows { statement: self })
    }

    /// Runs one that gives no rows.
    pub fn execute(&mut self) -> Result<()> {
        self.query([])?.next().map(drop)
    }

    fn check(&self, code: c_int, wanted: c_int) -> Result<()> {
        if code == wanted {
            return Ok(());
        }
        // SAFETY: a prepared statement has its connection, which is open: a connection with
        // statements refuses to close.
        Err(unsafe { fault(ffi::sqlite3_db_handle(self.raw.as_ptr()), code) })
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        // SAFETY: prepared, not running, and never used again.
        unsafe { ffi::sqlite3_finalize(self.raw.as_ptr()) };
    }
}

impl Rows<'_> {
    /// Moves to the next row; false when there is none.
    pub fn next(&mut self) -> Result<bool> {
        // SAFETY: the statement is prepared and ours alone.
        match unsafe { ffi::sqlite3_step(self.statement.raw.as_ptr()) } {
            ffi::SQLITE_ROW => Ok(true),
            code => self.statement.check(code, ffi::SQLITE_DONE).map(|()| false),
        }
    }

    /// Of the present row, which there must be. What is no number becomes one by SQLite's rules.
    pub fn integer(&self, column: c_int) -> i64 {
        // SAFETY: SQLite answers for a column or a row that is not there with 0.
        unsafe { ffi::sqlite3_column_int64(self.statement.raw.as_ptr(), column) }
    }

    /// Of the present row, which there must be; NULL is empty.
    pub fn text(&self, column: c_int) -> Result<&str> {
        let raw = self.statement.raw.as_ptr();
        // SAFETY: the text stays as it is until the statement moves on, which borrows us mutably;
        // its length is asked for after it has been made a text, as SQLite demands.
        let bytes = unsafe {
            let start = ffi::sqlite3_column_text(raw, column);
            let bytes = ffi::sqlite3_column_bytes(raw, column);
            match start.is_null() {
                true => &[],
                false => std::slice::from_raw_parts(start, usize::try_from(bytes).unwrap_or(0)),
            }
        };
        std::str::from_utf8(bytes)
            .map_err(|fault| rusqlite::Error::Utf8Error(column as usize, fault))
    }
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        // SAFETY: prepared. What a reset returns is the fault that the last step returned.
        unsafe { ffi::sqlite3_reset(self.statement.raw.as_ptr()) };
    }
}

/// # Safety
/// The connection is open and used by nobody else meanwhile.
unsafe fn fault(connection: *mut ffi::sqlite3, code: c_int) -> rusqlite::Error {
    // SAFETY: the message is a C string that stays until the connection's next call.
    let message = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(connection)) };
    let message = message.to_string_lossy().into_owned();
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        let sql = "CREATE TABLE t (n INTEGER, s TEXT);
                   INSERT INTO t VALUES (1, 'one'), (2, 'zwölf'), (3, NULL), (4, CAST(x'ff' AS TEXT));";
        connection.execute_batch(sql).unwrap();
        connection
    }

    #[test]
    fn it_gives_the_rows_of_each_run() {
        let connection = connection();
        let mut statement =
            Statement::prepare(&connection, "SELECT n, s FROM t WHERE n BETWEEN ?1 AND ?2")
                .unwrap();
        for (from, to, wanted) in [
            (1, 2, vec!["one", "zwölf"]),
            (3, 3, vec![""]),
            (9, 9, vec![]),
        ] {
            let mut rows = statement.query([from, to]).unwrap();
            let mut seen = Vec::new();
            while rows.next().unwrap() {
                assert_eq!(rows.integer(0), from + seen.len() as i64);
                seen.push(rows.text(1).unwrap().to_owned());
            }
            assert_eq!(seen, wanted);
        }
    }

    #[test]
    fn a_run_that_was_left_early_begins_anew() {
        let connection = connection();
        let mut statement = Statement::prepare(&connection, "SELECT n FROM t").unwrap();
        for _ in 0..2 {
            let mut rows = statement.query([]).unwrap();
            assert!(rows.next().unwrap());
            assert_eq!(rows.integer(0), 1);
        }
    }

    #[test]
    fn what_goes_wrong_is_an_error_that_says_so() {
        let connection = connection();
        let said = |fault: Option<rusqlite::Error>| fault.unwrap().to_string();
        let unknown = Statement::prepare(&connection, "SELECT * FROM nowhere").err();
        assert!(said(unknown).contains("no such table: nowhere"));
        let mut text = Statement::prepare(&connection, "SELECT s FROM t WHERE n = 4").unwrap();
        let mut rows = text.query([]).unwrap();
        assert!(rows.next().unwrap());
        assert!(said(rows.text(0).err()).contains("utf-8"));
        let mut unbound = Statement::prepare(&connection, "SELECT 1").unwrap();
        assert!(said(unbound.query([1]).err()).contains("range"));
        let mut overflow = Statement::prepare(&connection, "SELECT abs(?1)").unwrap();
        let fault = overflow.query([i64::MIN]).unwrap().next().err();
        assert!(said(fault).contains("integer overflow"));
        // It works again after that.
        assert!(overflow.query([-1]).unwrap().next().unwrap());
    }
}
