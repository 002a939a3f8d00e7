//! Columns by position, straight from the wire's binary format: the SQL stands beside the code
//! that reads it, and looking types up for each value would cost more than reading it.

use sqlx::postgres::{PgRow, PgValueRef};
use sqlx::{Error, Row};

/// The wire counts microseconds since 2000-01-01T00:00:00Z.
const POSTGRES_EPOCH_UNIX_MS: i64 = 946_684_800_000;

pub fn bigint(row: &PgRow, column: usize) -> Result<i64, Error> {
    Ok(i64::from_be_bytes(fixed(row, column)?))
}

pub fn integer(row: &PgRow, column: usize) -> Result<i32, Error> {
    Ok(i32::from_be_bytes(fixed(row, column)?))
}

pub fn boolean(row: &PgRow, column: usize) -> Result<bool, Error> {
    Ok(fixed::<1>(row, column)? != [0])
}

pub fn text(row: &PgRow, column: usize) -> Result<&str, Error> {
    let value: PgValueRef<'_> = row.try_get_raw(column)?;
    value.as_str().map_err(Error::Decode)
}

/// A `timestamptz(3)` as milliseconds since 1970.
pub fn unix_ms(row: &PgRow, column: usize) -> Result<i64, Error> {
    let since_2000_us = bigint(row, column)?;
    Ok(since_2000_us.div_euclid(1_000) + POSTGRES_EPOCH_UNIX_MS)
}

fn fixed<const BYTES: usize>(row: &PgRow, column: usize) -> Result<[u8; BYTES], Error> {
    let value: PgValueRef<'_> = row.try_get_raw(column)?;
    let bytes = value.as_bytes().map_err(Error::Decode)?;
    bytes
        .try_into()
        .map_err(|_| Error::Decode(format!("column {column}: {} bytes", bytes.len()).into()))
}
