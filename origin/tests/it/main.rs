//! The real program as a child process, seen from outside. One binary: linking takes longer than
//! most of these tests.

mod edge_key;
mod feed_cache;
mod feed_etag;
mod support;
