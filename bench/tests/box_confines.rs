//! What is in the box has its share and no more, and ends with it.
//!
//! As whoever may not make one, or without control groups, there is no box: these tests say so.

mod common;

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use bench::confine::{Enclosure, Limits};
use testbed::process::{self, Process, Signal};
use testbed::wait_until;

const SOON: Duration = Duration::from_secs(20);

fn enclosure() -> Option<Enclosure> {
    let limits = Limits {
        cpu_percent: 20.0,
        memory_bytes: 64 << 20,
    };
    common::may_confine().then(|| Enclosure::new(limits).unwrap())
}

fn start(enclosure: &Enclosure, script: &str) -> Process {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]);
    enclosure.confine(&mut shell).unwrap();
    Process::start("sh", shell).unwrap()
}

#[test]
fn a_burner_has_its_share_of_a_core() {
    let Some(enclosure) = enclosure() else { return };
    let burner = start(&enclosure, "while :; do :; done");
    let figures = enclosure.figures();
    let throttled = || figures.throttled().unwrap();
    let used = || process::cpu_time(burner.pid()).total();
    let (start, before, held_back) = (Instant::now(), used(), throttled());
    sleep(Duration::from_secs(5));
    let share = (used() - before).as_secs_f64() / start.elapsed().as_secs_f64();
    assert!((0.17..=0.23).contains(&share), "{share:.3} of a core");
    // Once a period, and there are 500: fewer where others kept it from its share.
    assert!(throttled() - held_back > 250, "{figures:?}");
}

#[test]
fn more_memory_than_the_box_has_is_not_to_be_had() {
    let Some(enclosure) = enclosure() else { return };
    // One block of so many megabytes, all written to.
    let fill = |megabytes: u32| {
        let script = format!("exec dd if=/dev/zero of=/dev/null bs={megabytes}M count=1");
        start(&enclosure, &script).wait(SOON).unwrap().signal()
    };
    assert_eq!(fill(4), None);
    assert_eq!(fill(100), Some(Signal::KILL.as_raw()));
}

#[test]
fn a_program_is_in_the_box_from_its_first_step_and_ends_with_it() {
    let Some(enclosure) = enclosure() else { return };
    let folders = enclosure.folders().to_vec();
    // One that its parent leaves behind, too.
    let script = "cat /proc/self/cgroup; sleep 600 & echo $!";
    let mut shell = start(&enclosure, script);
    assert!(shell.wait(SOON).unwrap().success());
    let said = shell.log().lines();
    let name = folders[0].file_name().unwrap().to_str().unwrap();
    assert!(said.iter().any(|line| line.contains(name)), "{said:?}");
    let left: u32 = said.last().unwrap().parse().unwrap();
    assert!(process::command_line(left).is_some());

    drop(enclosure);
    assert!(folders.iter().all(|folder| !folder.exists()));
    wait_until("the one left behind to end", SOON, || {
        Ok(process::command_line(left).is_none_or(|line| line.is_empty()))
    })
    .unwrap();
}
