//! Starts the real components (PostgreSQL, the origin) in temporary folders on free
//! ports, and stops them: for tests, tasks and measurements.
//!
//! Blocking and plain on purpose: a test says what it needs, holds the value, and
//! dropping it leaves nothing behind, also after a panic. Should the whole process be
//! killed, the kernel ends its children (see [`process`]).

pub mod cache;
pub mod dataset;
pub mod dir;
pub mod http;
pub mod machine;
pub mod net;
pub mod origin;
pub mod postgres;
pub mod process;
pub mod scripted_origin;
pub mod server;
pub mod workerd;
pub mod wrangler;

mod error;

pub use dir::TempDir;
pub use error::{Error, Result};
pub use net::{free_port, wait_until};
pub use origin::{Origin, OriginConfig};
pub use postgres::Postgres;
pub use scripted_origin::ScriptedOrigin;
pub use server::Server;
pub use workerd::{WorkerConfig, Workerd};
