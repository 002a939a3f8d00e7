use std::process::Command;

use testbed::cache::workspace;
use testbed::{Error, Result};

/// Cargo, in the workspace's root, as whoever runs this task called it.
pub fn cargo<const N: usize>(args: [&str; N]) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(args).current_dir(workspace());
    cargo
}

/// Runs a command whose output the user is to see.
pub fn run(mut command: Command) -> Result<()> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let line = words.join(" ");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::new(format!("`{line}` failed ({status})"))),
        Err(error) => Err(Error::new(format!("cannot run `{line}`: {error}"))),
    }
}

/// Whether cargo has this subcommand.
pub fn has(subcommand: &str) -> bool {
    let mut probe = cargo([subcommand, "--version"]);
    probe.output().is_ok_and(|output| output.status.success())
}
