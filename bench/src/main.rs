use std::process::ExitCode;

use bench::{commands, generator};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Measures how many users one box holds", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure one load level
    Run(Box<commands::run::Args>),
    /// What `run` starts as a process of its own
    #[command(hide = true)]
    Generate { load: String },
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(args) => commands::run::run(&args),
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
