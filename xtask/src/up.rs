use std::os::unix::process::CommandExt;
use std::process::Command;

use testbed::{Error, Result, origin};

use crate::step::step;

#[derive(clap::Args)]
pub struct UpArgs {
    /// Build for speed (slow to build)
    #[arg(long)]
    release: bool,
    /// Passed on to `origin dev`
    #[arg(last = true)]
    args: Vec<String>,
}

pub fn run(args: &UpArgs) -> Result<()> {
    let profile = if args.release { "release" } else { "dev" };
    let origin = step("build", || origin::binary(profile))?;
    // The server takes this process's place, so that it gets the terminal and its signals.
    let error = Command::new(&origin).arg("dev").args(&args.args).exec();
    Err(Error::new(format!(
        "cannot start {}: {error}",
        origin.display()
    )))
}
