use std::time::Instant;

use testbed::Result;

use crate::cargo::{self, cargo, run};
use crate::setup;
use crate::step::step;

#[derive(clap::Args)]
pub struct TestArgs {
    /// Passed on to the test runner, as a filter by name
    filter: Vec<String>,
}

fn run_tests(filter: &[String]) -> Result<()> {
    if cargo::has("nextest") {
        step("tests (cargo nextest)", || {
            let mut nextest = cargo(["nextest", "run", "--locked", "--no-fail-fast"]);
            nextest.args(filter);
            run(nextest)
        })
    } else {
        println!("    cargo-nextest is not installed: cargo test takes its place");
        step("tests (cargo test)", || {
            let mut test = cargo(["test", "--locked", "--all-targets", "--no-fail-fast", "--"]);
            test.args(filter);
            run(test)
        })
    }
}

pub fn run_all(args: &TestArgs) -> Result<()> {
    let start = Instant::now();
    step("set-up", setup::postgres)?;
    step("formatting", || run(cargo(["fmt", "--all", "--check"])))?;
    step("lints", || {
        run(cargo([
            "clippy",
            "--locked",
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ]))
    })?;
    run_tests(&args.filter)?;
    println!("all passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}
