//! Set-ups are started whole, loaded, accounted for, and stopped: real servers, on a small dataset.
//! (`plain` alone is left to `peers_keep_the_contract`: its release build takes minutes.)

mod common;

use std::process::Command;
use std::time::Duration;

use bench::results::Results;
use common::text;
use testbed::{TempDir, origin, process};

/// What runs on each, by the roles that CPU time and memory are counted for.
const EXPECTED: [(&str, &[&str]); 7] = [
    ("alone:sqlite", &["generator", "origin"]),
    (
        "origin-cache:postgres",
        &["generator", "origin", "postgres"],
    ),
    (
        "nginx:postgres",
        &["generator", "nginx", "origin", "postgres"],
    ),
    (
        "edge:postgres",
        &["edge", "generator", "origin", "postgres"],
    ),
    ("express:postgres", &["express", "generator", "postgres"]),
    (
        "express-cache:postgres",
        &["express", "generator", "postgres"],
    ),
    (
        "express-nginx:postgres",
        &["express", "generator", "nginx", "postgres"],
    ),
];

fn bench(command: &str, folder: &TempDir, args: &[&str]) -> (Results, String) {
    let file = folder.join(format!("{command}.json"));
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .arg(command)
        .args(args)
        .args(["--scale", "small", "--ramp", "1s", "--hold", "3s"])
        .args(["--down", "0s", "--grace", "1s", "--origin"])
        .arg(origin::binary("dev").unwrap())
        .arg("--json")
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    (Results::read(&file).unwrap(), text(&output))
}

/// From here on whoever is left behind by its parent becomes a child of this test.
fn adopt_orphans() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
}

/// What was killed takes a moment, and then waits here as a zombie, which has no command line.
fn nobody_is_left() {
    let running = || {
        let me = std::process::id();
        let mut tree = process::tree(me);
        tree.retain(|pid| *pid != me);
        let lines = tree.into_iter().filter_map(process::command_line);
        lines.filter(|line| !line.is_empty()).collect::<Vec<_>>()
    };
    let gone = testbed::wait_until("everything to be gone", Duration::from_secs(10), || {
        Ok(running().is_empty())
    });
    assert!(gone.is_ok(), "left running: {:?}", running());
}

#[test]
fn compare_starts_measures_and_stops_each() {
    adopt_orphans();
    let folder = TempDir::new("topologies").unwrap();
    let mut args: Vec<&str> = EXPECTED.iter().map(|(name, _)| *name).collect();
    args.extend(["--users", "20", "--warm-up", "1s"]);
    let (results, said) = bench("compare", &folder, &args);
    let seen: Vec<(&str, Vec<&str>)> = (results.levels.iter())
        .map(|level| {
            let roles = level.gauges.resident_bytes.keys().map(String::as_str);
            (level.topology.as_str(), roles.collect())
        })
        .collect();
    let expected: Vec<(&str, Vec<&str>)> = EXPECTED
        .iter()
        .map(|(name, roles)| (*name, roles.to_vec()))
        .collect();
    assert_eq!(seen, expected);
    for level in &results.levels {
        let whole = &level.summary.whole;
        assert!(whole.requests > 0 && whole.failures == 0, "{said}");
        // On the box are the servers alone: not what makes the load, and not the edge.
        let is_off_box = |role: &String| role == "edge" || role == "generator";
        assert!(!level.on_box.iter().any(is_off_box), "{:?}", level.on_box);
    }
    nobody_is_left();
}

#[test]
fn save_compares_the_origin_with_and_without_the_edge_at_the_same_requests() {
    adopt_orphans();
    let folder = TempDir::new("save").unwrap();
    let args = ["--store", "sqlite", "--rate", "100"];
    let (results, said) = bench("save", &folder, &args);
    let names: Vec<&str> = results.levels.iter().map(|l| l.topology.as_str()).collect();
    assert_eq!(names, ["alone:sqlite", "edge:sqlite", "edge-posts:sqlite"]);
    let requests: Vec<u64> = (results.levels.iter())
        .map(|level| level.summary.whole.requests)
        .collect();
    assert!(requests.iter().all(|count| *count == requests[0]), "{said}");
    assert!(said.contains("% saved"), "{said}");
    nobody_is_left();
}
