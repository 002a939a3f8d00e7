//! `conformance --base-url http://127.0.0.1:3000`

use clap::Parser;
use conformance::{BaseUrl, Dataset, Group, Options, Store};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Checks a server against the wire contract: one line per check, non-zero exit on a failure
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// The server under test, http://HOST[:PORT]
    #[arg(long, default_value = "http://127.0.0.1:3000")]
    base_url: BaseUrl,
    /// The server's secret, to sign tokens with
    #[arg(
        long,
        env = "JWT_SECRET",
        default_value = "twelve-dollar-challenge",
        hide_env_values = true
    )]
    jwt_secret: String,
    /// The server's database [default: either's behaviour is right]
    #[arg(long)]
    store: Option<Store>,
    /// `full` also runs the challenge's 42 checks, which need a freshly seeded database
    #[arg(long, default_value = "full")]
    dataset: Dataset,
    /// Run only the checks whose group/name contains this
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Leave a group out; may be repeated
    #[arg(long, value_name = "GROUP")]
    skip: Vec<Group>,
    /// Leave out the checks that a cache in front of the server may fail
    #[arg(long)]
    skip_fresh_reads: bool,
    /// The server's time limit for a request head
    #[arg(long, default_value_t = 10)]
    head_timeout_s: u64,
    /// The server's time limit for a request body
    #[arg(long, default_value_t = 30)]
    body_timeout_s: u64,
    /// Print the checks and run none
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = std::io::stdout();
    if cli.list {
        return match conformance::list(&mut out) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let options = Options {
        base_url: cli.base_url,
        jwt_secret: cli.jwt_secret,
        store: cli.store,
        dataset: cli.dataset,
        only: cli.only,
        skip: cli.skip,
        skip_fresh_reads: cli.skip_fresh_reads,
        head_timeout: Duration::from_secs(cli.head_timeout_s),
        body_timeout: Duration::from_secs(cli.body_timeout_s),
    };
    let report = conformance::run(&options, &mut out);
    let _ = out.flush();
    if report.passed() {
        return ExitCode::SUCCESS;
    }
    if report.failures.is_empty() {
        eprintln!("conformance: no check ran; see --list for their names");
    }
    ExitCode::FAILURE
}
