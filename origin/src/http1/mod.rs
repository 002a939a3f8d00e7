//! HTTP/1.1 over TCP: turns bytes into `http::Request`s for a tower service, and its responses
//! back into bytes.
//!
//! Why not hyper: an idle connection must cost about a kilobyte, not hyper's sixteen (a social
//! feed's users read for 20 s between requests, so nearly all connections are idle); a request
//! that hyper would repair (`Content-Length` beside `Transfer-Encoding`) must be refused; and what
//! is refused here must carry the API's JSON errors. `httparse` reads the grammar; framing, limits
//! and time-outs are ours.
//!
//! A connection travels: [`connection`] reads → [`head`] parses → [`body`] completes → the service
//! answers → [`response`] writes.

mod body;
mod connection;
mod head;
mod response;

pub use connection::{Drain, refuse, serve};

use std::time::Duration;

/// What one connection may take. Every wait and every buffer has its bound here.
#[derive(Debug, Clone)]
pub struct Limits {
    pub head_bytes: usize,
    pub body_bytes: usize,
    /// From the first byte of a head to its last.
    pub head_timeout: Duration,
    /// From the end of the head to the end of the body.
    pub body_timeout: Duration,
    /// Between two requests.
    pub idle_timeout: Duration,
    /// Without any progress of a response.
    pub write_timeout: Duration,
}

/// One more is refused, as a head that is too large.
const MAX_HEADERS: usize = 64;
