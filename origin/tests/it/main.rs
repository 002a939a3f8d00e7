//! The real program as a child process, seen from outside. One binary: linking takes longer than
//! most of these tests.

mod command_line;
mod conformance;
mod connections;
mod durability;
mod edge_key;
mod feed_cache;
mod feed_etag;
mod load;
mod metrics;
mod overload;
mod postgres;
mod postgres_http;
mod postgres_open;
mod postgres_store;
mod replica;
mod replica_faults;
mod request_log;
mod shutdown;
mod support;
mod workers;
