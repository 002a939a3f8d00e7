use std::time::Instant;

use testbed::cache::build_folder;
use testbed::origin::BINARY_VARIABLE;
use testbed::{Result, workerd};

use crate::cargo::{self, cargo};
use crate::setup;
use crate::step::step;

#[derive(clap::Args)]
pub struct TestArgs {
    /// Passed on to the test runner, as a filter by name
    filter: Vec<String>,
}

fn run_tests(filter: &[String], path: &str) -> Result<()> {
    // Built with the tests, before the first of them runs.
    let origin = build_folder().join("debug/origin");
    if cargo::has("nextest") {
        step("tests (cargo nextest)", || {
            let mut nextest = cargo(["nextest", "run", "--locked", "--no-fail-fast"]);
            nextest.args(filter);
            nextest.env(BINARY_VARIABLE, &origin).env("PATH", path);
            cargo::run(nextest)
        })
    } else {
        println!("    cargo-nextest is not installed: cargo test takes its place");
        step("tests (cargo test)", || {
            let mut test = cargo(["test", "--locked", "--all-targets", "--no-fail-fast", "--"]);
            test.args(filter);
            test.env(BINARY_VARIABLE, &origin).env("PATH", path);
            cargo::run(test)
        })
    }
}

/// The edge compiles for wasm alone, so the lints of the native crates pass it by.
fn lint_edge(toolchain: &str) -> Result<()> {
    let mut clippy = cargo(["clippy", "--locked", "--quiet", "--package", "edge"]);
    clippy
        .args([
            "--target",
            "wasm32-unknown-unknown",
            "--all-features",
            "--",
            "-D",
            "warnings",
        ])
        .env("RUSTUP_TOOLCHAIN", toolchain);
    let mut probe = cargo(["clippy", "--version"]);
    probe.env("RUSTUP_TOOLCHAIN", toolchain);
    if probe.output().is_ok_and(|output| output.status.success()) {
        cargo::run(clippy)
    } else {
        println!("    the toolchain {toolchain} has no clippy: the edge is not checked");
        Ok(())
    }
}

pub fn run(args: &TestArgs) -> Result<()> {
    let start = Instant::now();
    let path = step("set-up", || {
        setup::postgres()?;
        setup::wrk()?;
        setup::chromium()?;
        setup::k6()
    })?;
    let edge_tools = step("set-up of the edge", setup::edge)?;
    step("set-up of a fresh machine", setup::machine)?;
    step("formatting", || {
        cargo::run(cargo(["fmt", "--all", "--check"]))
    })?;
    step("lints", || {
        cargo::run(cargo([
            "clippy",
            "--locked",
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ]))
    })?;
    step("lints of the edge", || lint_edge(edge_tools.toolchain()))?;
    // Here, so that no test has to wait for it.
    step("build of the edge", || {
        workerd::edge_modules(&[])?;
        workerd::edge_modules(workerd::PANIC_ROUTE).map(drop)
    })?;
    if cargo::has("deny") {
        step("licences and sources of dependencies", || {
            let mut deny = cargo(["deny", "--log-level", "warn", "--offline", "check"]);
            deny.args(["licenses", "bans", "sources"]);
            cargo::run(deny)
        })?;
    } else {
        println!("    cargo-deny is not installed: licences and sources are not checked");
    }
    run_tests(&args.filter, &path)?;
    println!("all passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}
