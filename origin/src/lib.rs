//! The social feed's server: HTTP in front, a store behind it, nothing in between that is not
//! needed. A request travels `serve` → `http1` → `http` → `store`.

pub mod accept;
pub mod config;
pub mod dev;
pub mod http;
pub mod http1;
pub mod logging;
pub mod metrics;
pub mod migrate;
pub mod seed;
pub mod serve;
pub mod store;
pub mod supervisor;
pub mod token;
