//! What the tests have in common.

use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::cache::workspace;
use testbed::machine::{Machine, path_with_sbin};
use testbed::origin;

pub const INSTALL: &str = "/root/onebox/deploy/droplet/install.sh";
pub const UNINSTALL: &str = "/root/onebox/deploy/droplet/uninstall.sh";

/// A fresh one, with `deploy/` and the origin's program in /root.
pub fn machine() -> Option<Machine> {
    let machine = Machine::boot()?;
    machine.put(&origin::binary("dev").unwrap(), "/root/origin");
    machine.put(&deploy(""), "/root/onebox/deploy");
    Some(machine)
}

/// All that a second run must leave as it is.
pub fn state(machine: &Machine) -> String {
    machine.run(
        "find /etc /opt/onebox /usr/local /var/lib/onebox -xdev -type f,l -printf '%p %m %u:%g %T@ %l\\n' \
             | grep -v -e feed.db -e /etc/mtab | sort
         systemctl list-unit-files --no-legend | sort
         systemctl show -P MainPID onebox@1 onebox@2 onebox-tunnel nginx postgresql@*",
    )
}

/// In one line that says what is the matter.
pub fn fails_with(machine: &Machine, command: &str, what: &str) {
    let (succeeded, said) = machine.attempt(command);
    assert!(!succeeded && said.contains(what), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// Installs, and then twice more, which must change nothing.
pub fn installs_twice(machine: &Machine, options: &str) {
    let first = machine.run(&format!("{INSTALL} --binary /root/origin {options}"));
    assert!(first.contains("changed: "), "{first}");
    let before = state(machine);
    for again in ["", "--binary /root/origin"] {
        let second = machine.run(&format!("{INSTALL} {again}"));
        assert!(second.contains("nothing changed"), "{second}");
        assert_eq!(state(machine), before);
    }
}

pub fn deploy(path: impl AsRef<Path>) -> PathBuf {
    workspace().join("deploy").join(path)
}

/// Whether a program is here; a test that cannot do without says so and ends.
pub fn has(program: &str) -> bool {
    let found = Command::new("which")
        .arg(program)
        .env("PATH", path_with_sbin())
        .output()
        .is_ok_and(|output| output.status.success());
    if !found {
        println!("SKIPPED: {program} is not installed");
    }
    found
}

/// Of the exposure that `systemd-analyze` counts, 0 to 10, it has 2 at most.
pub fn is_hardened(machine: &Machine, unit: &str) {
    assert_eq!(machine.run(&format!("systemd-analyze verify {unit}")), "");
    let score = machine.run(&format!(
        "systemd-analyze security --no-pager {unit} | sed -n 's/.*exposure level for .*: \\([0-9.]*\\) .*/\\1/p'"
    ));
    assert!(score.parse::<f32>().unwrap() <= 2.0, "{unit}: {score}");
}
