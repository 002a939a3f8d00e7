//! What the edge and the origin must agree on, byte for byte.
//!
//! Nothing in here performs I/O or reads a clock: time is an argument, so the same code runs
//! native and as wasm, and a test moves the clock by hand.

pub mod api;
pub mod error;
pub mod etag;
pub mod failover;
mod json;
pub mod microcache;
pub mod post_body;
pub mod post_id;
pub mod route;
pub mod timestamp;
pub mod token;

pub use error::ApiError;
