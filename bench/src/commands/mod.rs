//! The program's commands, one a file.

pub mod compare;
pub mod run;
pub mod search;

mod print;
mod setting;
mod target;
