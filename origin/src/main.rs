use std::process::ExitCode;

use clap::{Parser, Subcommand};
use origin::config::{self, Config};
use origin::{dev, logging, migrate, seed, serve, token};

/// A social feed API that gets the most out of one small server
#[derive(Parser)]
#[command(version, after_help = config::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the API (the default)
    #[command(after_help = config::HELP)]
    Serve,
    /// Serve a small database of its own, made on the first run
    Dev(dev::DevArgs),
    /// Bring the tables of a PostgreSQL database to this version
    Migrate(migrate::MigrateArgs),
    /// Fill a database with the deterministic dataset
    Seed(seed::SeedArgs),
    /// Print a token for a user, signed with JWT_SECRET
    Token(token::TokenArgs),
}

fn main() -> ExitCode {
    match run(Cli::parse().command.unwrap_or(Command::Serve)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("origin: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), Box<dyn std::error::Error>> {
    match command {
        Command::Serve => {
            logging::start()?;
            let config = Config::read(|name| std::env::var(name).ok())?;
            Ok(serve::serve(config, |_| {})?)
        }
        Command::Dev(args) => {
            logging::start()?;
            dev::run(args)
        }
        Command::Migrate(args) => migrate::run(args),
        Command::Seed(args) => Ok(seed::run(args)?),
        Command::Token(args) => token::run(args),
    }
}
