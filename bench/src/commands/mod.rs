//! The program's commands, one a file.

pub mod compare;
pub mod plan;
pub mod report;
pub mod run;
pub mod save;
pub mod search;

mod print;
mod setting;
mod target;
