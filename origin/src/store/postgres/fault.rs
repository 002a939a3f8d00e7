//! What a failed statement means for those who wait for it.

use sqlx::Error;
use sqlx::postgres::PgDatabaseError;

#[derive(Debug, PartialEq, Eq)]
pub enum Fate {
    /// The server ended it in favour of another transaction: it is safe to send again.
    Contended,
    /// The server refused a value of one member of the group: nothing was done.
    Rejected,
    /// Anything else. The connection, or what was prepared on it, is not to be trusted.
    Lost,
}

pub fn fate(fault: &Error) -> Fate {
    let Some(code) = sqlstate(fault) else {
        return Fate::Lost;
    };
    match code {
        // serialization_failure, deadlock_detected
        "40001" | "40P01" => Fate::Contended,
        // data_exception, integrity_constraint_violation
        _ if code.starts_with("22") || code.starts_with("23") => Fate::Rejected,
        _ => Fate::Lost,
    }
}

/// Whether the server gave up this one statement, and nothing else is wrong: for the sake of what a
/// replica has to replay (serialization_failure, deadlock_detected), or after its time
/// (query_canceled).
pub fn is_cancelled(fault: &Error) -> bool {
    matches!(sqlstate(fault), Some("40001" | "40P01" | "57014"))
}

pub fn sqlstate(fault: &Error) -> Option<&str> {
    match fault {
        Error::Database(fault) => Some(fault.downcast_ref::<PgDatabaseError>().code()),
        _ => None,
    }
}

/// For the log: no URL, no password and no value of a row is in it.
pub fn describe(fault: &Error) -> String {
    match fault {
        Error::Database(fault) => {
            let fault = fault.downcast_ref::<PgDatabaseError>();
            format!("{} ({})", fault.message(), fault.code())
        }
        Error::Io(fault) => fault.to_string(),
        Error::Tls(_) => "no TLS connection could be made".to_owned(),
        Error::Protocol(_) | Error::Decode(_) => "the server's answer made no sense".to_owned(),
        _ => "the statement failed in the driver".to_owned(),
    }
}
