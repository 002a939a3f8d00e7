//! CPU accounting against a process that burns a known amount.

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use bench::accounting::{Accounts, Role};
use bench::confine::{Enclosure, Limits};
use testbed::process::{self, AS_IT_IS, Prepare, Process};

/// Two processes below a shell, so that it takes a walk through the tree to find them; one of
/// them comes and goes.
fn burner(prepare: Prepare) -> Process {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(
        "while :; do :; done & \
         while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; (:); done",
    );
    prepare(&mut shell).unwrap();
    Process::start("the burner", shell).unwrap()
}

fn roles(burner: &Process) -> Vec<Role> {
    vec![Role {
        name: "burner",
        root: burner.pid(),
        is_on_box: true,
    }]
}

#[test]
fn the_roles_add_up_to_what_the_kernel_counted_for_the_box() {
    let limits = Limits {
        cpu_percent: 40.0,
        memory_bytes: 256 << 20,
    };
    if !common::may_confine() {
        return;
    }
    let enclosure = Enclosure::new(limits).unwrap();
    let burner = burner(&|command| enclosure.confine(command));
    let mut accounts = Accounts::new(roles(&burner), Some(enclosure.figures()));

    let (begin, start) = (accounts.sample(), Instant::now());
    std::thread::sleep(Duration::from_secs(6));
    let (end, elapsed) = (accounts.sample(), start.elapsed());
    let usage = accounts.between(&begin, &end);

    let difference = usage.box_difference_percent.unwrap();
    assert!(difference.abs() < 3.0, "{difference:.2}% apart: {usage:?}");
    assert_eq!(usage.box_roles_us, usage.role_us("burner"));
    // The box held it to its share, where the machine left it that much.
    let share = usage.box_us.unwrap() as f64 / elapsed.as_micros() as f64;
    assert!(share < 0.42, "{share:.3} of a core");
    assert!(share > 0.02, "{share:.3} of a core");
}

#[test]
fn a_share_is_what_the_process_itself_says_it_used() {
    let burner = burner(AS_IT_IS);
    let mut accounts = Accounts::new(roles(&burner), None);
    let (before, begin) = (process::cpu_time_of_tree(burner.pid()), accounts.sample());
    std::thread::sleep(Duration::from_secs(3));
    let (after, end) = (process::cpu_time_of_tree(burner.pid()), accounts.sample());
    let said = (after - before).total().as_micros() as f64;
    let usage = accounts.between(&begin, &end);
    let found = usage.role_us("burner") as f64;
    assert!(
        (found / said - 1.0).abs() < 0.03,
        "{found} µs found, {said} µs said"
    );
    assert!(usage.machine_busy_us > 0);
}
