//! The project's tasks.

mod bench;
mod cargo;
mod challenge;
mod setup;
mod step;
mod test;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Set up what is missing, then build and run the server on an embedded database
    Up(up::UpArgs),
    /// Set up what is missing, then check formatting and lints and run every test
    Test(test::TestArgs),
    /// Put the challenge's submission together in a folder of its own
    ChallengeFolder(challenge::Args),
    /// Measure CPU time per request beside a bare axum server
    BenchOrigin(bench::origin::Args),
    /// Measure CPU time per feed hit of the edge, beside a hand-written JavaScript Worker
    BenchEdge(bench::edge::Args),
    /// Measure the memory of idle keep-alive connections
    BenchIdle(bench::idle::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Up(args) => up::run(&args),
        Task::Test(args) => test::run(&args),
        Task::ChallengeFolder(args) => challenge::run(&args),
        Task::BenchOrigin(args) => bench::origin::run(&args),
        Task::BenchEdge(args) => bench::edge::run(&args),
        Task::BenchIdle(args) => bench::idle::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
