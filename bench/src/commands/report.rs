//! A page of results.

use std::path::PathBuf;

use testbed::{Error, Result};

use crate::report;
use crate::results::Results;

#[derive(clap::Args)]
pub struct Args {
    /// What the other commands wrote
    #[arg(required = true, num_args = 1..)]
    results: Vec<PathBuf>,
    /// Where the page goes
    #[arg(long, default_value = "results/report.html")]
    out: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    let runs = (args.results.iter())
        .map(|path| Results::read(path))
        .collect::<Result<Vec<Results>>>()?;
    let writing =
        |error: std::io::Error| Error::new(format!("cannot write {}: {error}", args.out.display()));
    if let Some(folder) = args.out.parent() {
        std::fs::create_dir_all(folder).map_err(writing)?;
    }
    let page = report::page(&runs);
    std::fs::write(&args.out, &page).map_err(writing)?;
    println!("{}: {} kB", args.out.display(), page.len() / 1000);
    Ok(())
}
