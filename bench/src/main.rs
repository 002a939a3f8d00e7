use std::process::ExitCode;

use bench::commands::search::Loop;
use bench::{commands, generator};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Measures how many users one box holds", version, after_help = bench::topology::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure one load level
    Run(Box<commands::run::Args>),
    /// Find the most users that pass (closed loop)
    Search(Box<commands::search::Args>),
    /// Find the most requests a second that pass (open loop)
    Open(Box<commands::search::Args>),
    /// Measure the same levels on several topologies
    Compare(Box<commands::compare::Args>),
    /// What the edge saves: the origin's CPU with and without it
    Save(Box<commands::save::Args>),
    /// From measured CPU to boxes and money
    Plan(Box<commands::plan::Args>),
    /// Write results as one HTML page
    Report(commands::report::Args),
    /// What the others start as a process of its own
    #[command(hide = true)]
    Generate { load: String },
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(args) => commands::run::run(&args),
        Command::Search(args) => commands::search::run(Loop::Closed, &args),
        Command::Open(args) => commands::search::run(Loop::Open, &args),
        Command::Compare(args) => commands::compare::run(&args),
        Command::Save(args) => commands::save::run(&args),
        Command::Plan(args) => commands::plan::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Generate { load } => generator::generate(&load),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
