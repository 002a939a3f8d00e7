//! Mistakes are one line that says what to do; a run that is interrupted keeps what it measured
//! and leaves nothing running.

mod common;

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use common::{Bench, serve, text};
use testbed::process;

fn no_delay() -> common::Delay {
    Arc::new(|| Duration::ZERO)
}

#[test]
fn a_mistake_is_one_line_that_says_what_to_do() {
    let server = serve(no_delay());
    let bench = Bench::new();
    let program = || Command::new(env!("CARGO_BIN_EXE_bench"));
    let nowhere = format!("http://127.0.0.1:{}", testbed::free_port());
    let mut unknown = program();
    unknown.args(["run", "apache", "--users", "5"]);
    let mut nobody = program();
    nobody.args([
        "run",
        "--users",
        "5",
        "--base-url",
        &nowhere,
        "--tokens",
        "/none",
    ]);
    let mut no_tokens = program();
    no_tokens.args(["run", "--users", "5", "--tokens", "/none", "--base-url"]);
    no_tokens.arg(format!("http://{server}"));
    let mut no_k6 = bench.command("run", server, &["--users", "5", "--engine", "k6"]);
    no_k6.env("PATH", "");
    let mut no_origin = program();
    no_origin.args(["run", "alone", "--users", "5", "--origin", "/none"]);
    let mut not_results = program();
    not_results.args(["report", "/dev/null", "--out", "/dev/null"]);
    for (mut command, said) in [
        (unknown, "want alone, origin-cache"),
        (nobody, "is not there"),
        (no_tokens, "origin seed --tokens FILE"),
        (no_k6, "is k6 installed"),
        (no_origin, "--origin: no program /none"),
        (not_results, "/dev/null holds no results"),
    ] {
        let output = command.output().unwrap();
        assert!(!output.status.success());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let lines: Vec<&str> = error
            .lines()
            .filter(|line| line.contains("error:"))
            .collect();
        assert_eq!(lines.len(), 1, "{error}");
        assert!(lines[0].contains(said), "{error}");
        assert!(!error.contains("panicked"), "{error}");
    }
}

#[test]
fn an_interrupted_run_keeps_what_it_measured_and_leaves_nothing_running() {
    let bench = Bench::new();
    let args = ["--users", "200", "--ramp", "1s", "--hold", "2m"];
    let mut command = bench.command("run", serve(no_delay()), &args);
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let running = command.spawn().unwrap();
    std::thread::sleep(Duration::from_secs(5));
    let started = process::tree(running.id());
    assert!(started.len() > 1, "the generator is a process of its own");
    Command::new("kill")
        .args(["-INT", &running.id().to_string()])
        .status()
        .unwrap();
    let output = running.wait_with_output().unwrap();
    assert!(!output.status.success());
    assert!(
        text(&output).contains("interrupted: what was measured is in"),
        "{}",
        text(&output)
    );

    let level = bench.results().levels.remove(0);
    assert!(level.summary.interrupted && !level.passed());
    assert!(level.summary.whole.requests > 50 && level.seconds.len() >= 3);
    for pid in started {
        assert!(
            !std::path::Path::new(&format!("/proc/{pid}")).exists(),
            "{pid} runs on"
        );
    }
}
