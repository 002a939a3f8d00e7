//! Measures how many people one box holds, what runs out first, and what the edge saves.

pub mod accounting;
pub mod commands;
pub mod confine;
pub mod engine;
pub mod generator;
pub mod interrupt;
pub mod judge;
pub mod level;
pub mod machine;
pub mod progress;
pub mod report;
pub mod results;
pub mod search;
pub mod stand;
pub mod topology;
pub mod units;
