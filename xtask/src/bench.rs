//! Measurements that need nothing but wrk.

pub mod edge;
pub mod idle;
pub mod origin;

mod machine;
mod subject;
mod table;
mod wrk;
