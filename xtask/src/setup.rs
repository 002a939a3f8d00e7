//! Installs what the tasks need and the machine lacks, where that is possible.

use std::process::{Command, Stdio};

use testbed::cache::workspace;
use testbed::postgres::Programs;
use testbed::{Error, Result};

use crate::cargo;

/// PostgreSQL's server programs; tests start clusters of their own with them.
pub fn postgres() -> Result<()> {
    if Programs::find().is_err() {
        install("postgresql", "PostgreSQL's programs are missing")?;
    }
    let version = Programs::find()?.major_version()?;
    if version < 14 {
        return Err(Error::new(format!(
            "PostgreSQL {version} is too old: install 14 or newer"
        )));
    }
    println!("    PostgreSQL {version}");
    Ok(())
}

/// The load generator of `bench-origin`.
pub fn wrk() -> Result<()> {
    // wrk has no flag that succeeds; that it can be started is enough.
    let is_there = || Command::new("wrk").arg("--version").output().is_ok();
    if !is_there() {
        install("wrk", "wrk is missing")?;
    }
    if !is_there() {
        return Err(Error::new(
            "wrk is not in PATH: install it (https://github.com/wg/wrk)",
        ));
    }
    Ok(())
}

/// What builds and runs the edge. Returns the toolchain that compiles for wasm.
///
/// The script says what it installs, and finds everything in place the next time.
pub fn edge() -> Result<String> {
    let script = workspace().join("edge/setup/tools.sh");
    let output = Command::new("bash")
        .arg(&script)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Error::new(format!("cannot run {}: {error}", script.display())))?;
    if !output.status.success() {
        return Err(Error::new("the edge cannot be built here: see above"));
    }
    let variables = String::from_utf8_lossy(&output.stdout);
    variables
        .lines()
        .find_map(|line| {
            line.strip_prefix("export RUSTUP_TOOLCHAIN='")?
                .strip_suffix('\'')
        })
        .map(str::to_owned)
        .ok_or_else(|| Error::new(format!("{} named no toolchain", script.display())))
}

/// Debian's package, where this user may install one.
fn install(package: &str, why: &str) -> Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    let has_apt = Command::new("apt-get").arg("--version").output().is_ok();
    if !has_apt {
        return Err(Error::new(format!(
            "{why}: install the package {package} with this system's package manager"
        )));
    }
    if !is_root {
        return Err(Error::new(format!(
            "{why}: run `sudo apt-get install {package}`"
        )));
    }
    println!("    {why}: installing Debian's package {package}");
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-q", "-y"]).args(args);
        command.env("DEBIAN_FRONTEND", "noninteractive");
        cargo::run(command)
    };
    let install = ["install", "--no-install-recommends", package];
    // The package lists may be old or absent: fetch them only when it does not work without.
    apt(&install).or_else(|_| {
        apt(&["update"])?;
        apt(&install)
    })
}
