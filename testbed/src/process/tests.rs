use super::*;
use std::path::Path;
use std::time::Instant;

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

const SOON: Duration = Duration::from_secs(10);

#[test]
fn output_is_kept_by_line_from_both_streams() {
    let mut process = Process::start("sh", shell("echo one; echo two >&2; exit 3")).unwrap();
    assert_eq!(process.wait(SOON).unwrap().code(), Some(3));
    let mut lines = process.log().lines();
    lines.sort();
    assert_eq!(lines, ["one", "two"]);
}

#[test]
fn a_dropped_process_is_gone() {
    let process = Process::start("sleep", shell("exec sleep 600")).unwrap();
    let proc = format!("/proc/{}", process.pid());
    assert!(Path::new(&proc).exists());
    drop(process);
    assert!(!Path::new(&proc).exists());
}

#[test]
fn a_program_begins_once_its_process_was_admitted() {
    let (seen, pids) = mpsc::channel();
    let mut command = shell("echo begun");
    admit_first(&mut command, move |pid| {
        // Still a copy of its owner.
        seen.send((pid, command_line(pid))).unwrap();
        true
    })
    .unwrap();
    let mut process = Process::start("sh", command).unwrap();
    assert!(process.wait(SOON).unwrap().success());
    assert_eq!(process.log().lines(), ["begun"]);
    let own = command_line(std::process::id());
    assert_eq!(pids.recv().unwrap(), (process.pid(), own));
}

#[test]
fn a_process_that_is_not_admitted_does_not_begin() {
    let dir = crate::TempDir::new("admission").unwrap();
    let mark = dir.join("begun");
    let mut command = shell("echo > \"$0\"");
    command.arg(&mark);
    admit_first(&mut command, |_| false).unwrap();
    let error = Process::start("sh", command).unwrap_err();
    assert!(error.to_string().contains("cannot start sh"), "{error}");
    assert!(!mark.exists());
}

#[test]
fn a_process_outlives_the_thread_that_started_it() {
    let start = || Process::start("sleep", shell("exec sleep 600")).unwrap();
    let mut process = std::thread::spawn(start).join().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert!(process.has_exited().is_none());
}

#[test]
fn children_die_with_a_killed_owner() {
    if let Ok(file) = std::env::var("TESTBED_OWNER_WRITES_PID") {
        let child = Process::start("sleep", shell("exec sleep 600")).unwrap();
        std::fs::write(&file, child.pid().to_string()).unwrap();
        std::thread::sleep(Duration::from_secs(600));
    }
    let dir = crate::TempDir::new("owner").unwrap();
    let file = dir.join("pid");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "process::tests::children_die_with_a_killed_owner",
        ])
        .env("TESTBED_OWNER_WRITES_PID", &file);
    let mut owner = Process::start("owner", command).unwrap();
    let read = || {
        std::fs::read_to_string(&file)
            .ok()
            .and_then(|text| text.parse::<u32>().ok())
    };
    net::wait_until("the child's pid", SOON, || Ok(read().is_some())).unwrap();
    let child = read().unwrap();
    assert_eq!(parent(child), Some(owner.pid()));

    owner.kill();
    let is_gone = || {
        let state = std::fs::read_to_string(format!("/proc/{child}/stat"));
        Ok(state.map_or(true, |state| state.contains(") Z ")))
    };
    net::wait_until("the child to die", SOON, is_gone).unwrap();
}

#[test]
fn cpu_time_counts_children_that_have_ended() {
    let burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let script = format!("sh -c '{burn}'; echo done; exec sleep 600");
    // `exec` keeps the pid, and with it the time of the children it waited for.
    let process = Process::start("sh", shell(&script)).unwrap();
    process.log().wait_for("done", SOON * 6).unwrap();
    let own = cpu_time(process.pid());
    let whole = cpu_time_of_tree(process.pid());
    assert!(
        whole.total() >= own.total() + Duration::from_millis(50),
        "{own:?} {whole:?}"
    );
}

#[test]
fn cpu_time_of_a_busy_process_is_what_the_clock_says() {
    let process = Process::start("sh", shell("echo go; while :; do :; done")).unwrap();
    process.log().wait_for("go", SOON).unwrap();
    let (start, before) = (Instant::now(), cpu_time(process.pid()));
    std::thread::sleep(Duration::from_millis(500));
    let used = (cpu_time(process.pid()) - before).total();
    // Others may compete for the core, so only the upper bound is tight.
    assert!(
        used <= start.elapsed() + Duration::from_millis(30),
        "{used:?}"
    );
    assert!(used >= Duration::from_millis(50), "{used:?}");
}

#[test]
fn a_tree_holds_the_descendants_and_ends_with_its_root() {
    let process = Process::start("sh", shell("sh -c 'sleep 600; :' & echo up; wait")).unwrap();
    process.log().wait_for("up", SOON).unwrap();
    net::wait_until("two descendants", SOON, || {
        Ok(tree(process.pid()).len() == 3)
    })
    .unwrap();
    let tree = tree(process.pid());
    assert_eq!(tree[0], process.pid());
    assert_eq!(command_line(tree[2]).unwrap(), "sleep 600");
    // What it started ends with it.
    drop(process);
    net::wait_until("all of them to be gone", SOON, || {
        Ok((tree[1..].iter()).all(|pid| command_line(*pid).is_none_or(|line| line.is_empty())))
    })
    .unwrap();
}

#[test]
fn memory_is_that_of_the_process() {
    let own = memory(std::process::id()).unwrap();
    assert!(own.anonymous_bytes > 0 && own.resident_bytes >= own.anonymous_bytes);
    let block = vec![1u8; 32 << 20];
    let grown = memory(std::process::id()).unwrap();
    assert!(grown.anonymous_bytes >= own.anonymous_bytes + block.len() as u64);
}

#[test]
fn a_program_that_fails_is_quoted() {
    let error = run(shell("echo out; echo broken >&2; exit 1")).unwrap_err();
    assert!(error.to_string().contains("broken"));
    assert_eq!(run(shell("echo fine")).unwrap(), "fine\n");
}
