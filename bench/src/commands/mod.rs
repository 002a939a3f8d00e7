//! The program's commands, one a file.

pub mod run;

mod print;
mod setting;
