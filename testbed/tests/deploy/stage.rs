//! What the tests have in common.

use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::cache::workspace;
use testbed::machine::path_with_sbin;

pub fn deploy(path: impl AsRef<Path>) -> PathBuf {
    workspace().join("deploy").join(path)
}

/// Whether a program is here; a test that cannot do without says so and ends.
pub fn has(program: &str) -> bool {
    let found = Command::new("which")
        .arg(program)
        .env("PATH", path_with_sbin())
        .output()
        .is_ok_and(|output| output.status.success());
    if !found {
        println!("SKIPPED: {program} is not installed");
    }
    found
}
