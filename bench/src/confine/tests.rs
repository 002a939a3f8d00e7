//! Folders in the place of control groups: what is written where, and how figures are read.
use std::path::{Path, PathBuf};

use testbed::TempDir;

use super::*;

const LIMITS: Limits = Limits {
    cpu_percent: 12.5,
    memory_bytes: 64 << 20,
};

fn text(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).unwrap()
}

fn make(folder: &Path, files: &[(&str, &str)]) {
    fs::create_dir_all(folder).unwrap();
    for (file, text) in files {
        fs::write(folder.join(file), text).unwrap();
    }
}

/// A group whose files can be taken away like any: the kernel's go by themselves.
struct Fake(Enclosure);

impl Drop for Fake {
    fn drop(&mut self) {
        for folder in std::mem::take(&mut self.0.confinement.folders) {
            fs::remove_dir_all(folder).unwrap();
        }
    }
}

fn a_process_that_has_ended() -> u32 {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

#[test]
fn version_2_has_all_in_one_folder() {
    let root = TempDir::new("cgroup").unwrap();
    assert!(!v2::is_at(root.path()));
    make(
        root.path(),
        &[("cgroup.controllers", "cpuset cpu io memory pids\n")],
    );
    assert!(v2::is_at(root.path()));
    let made = Fake(v2::enclose(root.path(), "onebox-1", LIMITS).unwrap());
    let group = root.join("onebox-1");

    assert_eq!(text(&group, "cpu.max"), "1250 10000");
    assert_eq!(text(&group, "memory.max"), "67108864");
    assert_eq!(text(&group, "memory.swap.max"), "0");

    let own = std::process::id();
    made.0.door.let_in(own).unwrap();
    assert_eq!(text(&group, "servers/cgroup.procs"), own.to_string());
    // No process may be where controllers are given on.
    assert!(!group.join("cgroup.procs").exists());
    for folder in [root.path(), &group] {
        assert_eq!(text(folder, "cgroup.subtree_control"), "+cpu +memory");
    }

    let figures = made.0.figures();
    assert_eq!(figures.kind(), "cgroup v2");
    assert_eq!((figures.cpu_us(), figures.throttled()), (None, None));
    let stat = "usage_usec 1200\nuser_usec 700\nsystem_usec 500\nnr_periods 9\nnr_throttled 4\n";
    make(&group, &[("cpu.stat", stat), ("memory.current", "4096\n")]);
    assert_eq!(figures.cpu_us(), Some(1200));
    assert_eq!(figures.throttled(), Some(4));
    assert_eq!(figures.memory_bytes(), Some(4096));
}

#[test]
fn version_2_without_a_controller_is_refused() {
    let root = TempDir::new("cgroup").unwrap();
    make(
        root.path(),
        &[("cgroup.controllers", "cpuset memory pids\n")],
    );
    let error = v2::enclose(root.path(), "onebox-1", LIMITS).unwrap_err();
    assert_eq!(error.to_string(), "no cpu controller");
    assert!(!root.join("onebox-1").exists());
}

/// Version 1 as many systems mount it: `cpuacct` is a link to the tree of `cpu`.
fn version_1(root: &TempDir) -> (PathBuf, PathBuf, Confinement) {
    let (cpu, memory) = (root.join("cpu/onebox-1"), root.join("memory/onebox-1"));
    let cpu_files = [
        "cpu.cfs_period_us",
        "cpu.cfs_quota_us",
        "cpu.stat",
        "cpuacct.usage",
    ];
    make(&cpu, &cpu_files.map(|file| (file, "")));
    make(
        &memory,
        &[
            ("memory.limit_in_bytes", ""),
            ("memory.memsw.limit_in_bytes", ""),
        ],
    );
    let mut group = Confinement::new(Kind::V1);
    group.folders = vec![cpu.clone(), memory.clone()];
    (cpu, memory, group)
}

#[test]
fn version_1_has_a_folder_for_each_tree() {
    let root = TempDir::new("cgroup").unwrap();
    let (cpu, memory, group) = version_1(&root);
    assert!(v1::limit(&group, LIMITS).unwrap().is_empty());
    assert_eq!(text(&cpu, "cpu.cfs_period_us"), "10000");
    assert_eq!(text(&cpu, "cpu.cfs_quota_us"), "1250");
    assert_eq!(text(&memory, "memory.limit_in_bytes"), "67108864");
    assert_eq!(text(&memory, "memory.memsw.limit_in_bytes"), "67108864");

    let own = std::process::id();
    let door = Door::Folders(group.folders.clone());
    door.let_in(own).unwrap();
    assert_eq!(text(&cpu, "cgroup.procs"), own.to_string());
    assert_eq!(text(&memory, "cgroup.procs"), own.to_string());

    make(
        &cpu,
        &[(
            "cpu.stat",
            "nr_periods 9\nnr_throttled 4\nthrottled_time 77\n",
        )],
    );
    make(&cpu, &[("cpuacct.usage", "1200345\n")]);
    make(&memory, &[("memory.usage_in_bytes", "4096\n")]);
    assert_eq!(group.kind(), "cgroup v1");
    assert_eq!(group.cpu_us(), Some(1200));
    assert_eq!(group.throttled(), Some(4));
    assert_eq!(group.memory_bytes(), Some(4096));
}

#[test]
fn what_version_1_would_not_limit_is_said() {
    let root = TempDir::new("cgroup").unwrap();
    let (_, memory, group) = version_1(&root);
    for (file, what) in [
        ("memory.memsw.limit_in_bytes", "swap"),
        ("memory.limit_in_bytes", "memory"),
    ] {
        // Nobody can write to a folder.
        fs::remove_file(memory.join(file)).unwrap();
        fs::create_dir(memory.join(file)).unwrap();
        assert_eq!(v1::limit(&group, LIMITS).unwrap(), [what]);
    }
}

#[test]
fn a_scope_has_the_same_limits() {
    let [cpu, period, memory, swap, _] = systemd::properties(LIMITS);
    assert_eq!(
        (&*cpu, &*period),
        ("CPUQuota=12.50%", "CPUQuotaPeriodSec=10000us")
    );
    assert_eq!(
        (&*memory, &*swap),
        ("MemoryMax=67108864", "MemorySwapMax=0")
    );
}

#[test]
fn a_scope_with_version_1_would_confine_nothing() {
    let root = TempDir::new("cgroup").unwrap();
    let error = systemd::enclose(root.path(), "onebox-1", LIMITS).unwrap_err();
    assert!(error.to_string().contains("cgroup v1"), "{error}");
}

#[test]
fn a_process_that_cannot_be_let_in_does_not_start_and_the_reason_is_kept() {
    let mut enclosure = Enclosure::with(Kind::V2);
    enclosure.door = Door::Folders(vec!["/nowhere".into()]);
    let mut command = Command::new("true");
    enclosure.confine(&mut command).unwrap();
    assert!(Process::start("true", command).is_err());
    let reason = enclosure.refusal().unwrap().to_string();
    assert!(
        reason.starts_with("cannot confine a process: /nowhere/cgroup.procs: "),
        "{reason}"
    );
}

#[test]
fn a_group_half_made_is_taken_away() {
    let root = TempDir::new("cgroup").unwrap();
    for tree in ["cpu", "cpuacct", "memory"] {
        fs::create_dir(root.join(tree)).unwrap();
    }
    // Plain folders have none of the kernel's files.
    let error = v1::enclose(root.path(), "onebox-1", LIMITS).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the control group has no cpu.cfs_period_us"
    );
    for tree in ["cpu", "cpuacct", "memory"] {
        assert_eq!(fs::read_dir(root.join(tree)).unwrap().count(), 0, "{tree}");
    }
}

#[test]
fn a_killed_run_s_groups_are_removed_by_the_next() {
    let root = TempDir::new("cgroup").unwrap();
    let (dead, own) = (a_process_that_has_ended(), std::process::id());
    let make = |name: String| {
        fs::create_dir(root.join(&name)).unwrap();
        root.join(name)
    };
    let abandoned = make(format!("onebox-{dead}"));
    fs::create_dir(abandoned.join("servers")).unwrap();
    let others = [
        make(format!("onebox-{own}")),
        make(format!("onebox-{own}.scope")),
        make("onebox-backup".to_owned()),
        make(format!("session-{dead}.scope")),
    ];
    remove_abandoned(root.path());
    assert!(!abandoned.exists());
    assert!(others.iter().all(|folder| folder.exists()));
}

#[test]
fn a_killed_run_s_scope_is_emptied_for_systemd_to_remove() {
    let root = TempDir::new("cgroup").unwrap();
    let scope = root.join(format!("onebox-{}.scope", a_process_that_has_ended()));
    let mut left = std::process::Command::new("sleep")
        .arg("600")
        .spawn()
        .unwrap();
    make(&scope, &[("cgroup.procs", &format!("0\n{}\n", left.id()))]);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            left.wait().unwrap();
            // Not by whom it was emptied: systemd would not notice.
            assert!(scope.exists());
            fs::remove_dir_all(&scope).unwrap();
        });
        remove_abandoned(root.path());
    });
    assert!(!scope.exists());
}
