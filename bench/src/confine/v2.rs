//! Version 2: one tree for all controllers.

use std::path::Path;

use testbed::{Error, Result};

use super::{Door, Enclosure, Kind, Limits, PERIOD_US, create, read, write};

const CONTROLLERS: &str = "cgroup.controllers";
const GIVEN: &str = "cgroup.subtree_control";

pub(super) fn is_at(root: &Path) -> bool {
    root.join(CONTROLLERS).exists()
}

const CONTROLLED: [&str; 2] = ["cpu", "memory"];

pub(super) fn enclose(root: &Path, name: &str, limits: Limits) -> Result<Enclosure> {
    let there = read(&root.join(CONTROLLERS))?;
    let is_there = |controller: &&str| there.split_whitespace().any(|c| c == *controller);
    if let Some(missing) = CONTROLLED.iter().find(|c| !is_there(c)) {
        return Err(Error::new(format!("no {missing} controller")));
    }
    give(root)?;
    let mut enclosure = Enclosure::in_folders(Kind::V2, &[root.to_owned()], name)?;
    let group = &enclosure.folders()[0];
    limit(group, limits)?;
    // Given on, though nothing is limited further down: a controller that only the root gives is
    // taken back by systemd, and the limits with it, once none of its own units needs it. Where
    // controllers are given on no process may be.
    give(group)?;
    let servers = group.join("servers");
    create(&servers)?;
    enclosure.door = Door::Folders(vec![servers]);
    Ok(enclosure)
}

/// Gives the groups in this one their controllers.
fn give(group: &Path) -> Result<()> {
    let given = CONTROLLED.map(|controller| format!("+{controller}"));
    write(&group.join(GIVEN), &given.join(" "))
}

fn limit(group: &Path, limits: Limits) -> Result<()> {
    let quota = format!("{} {PERIOD_US}", limits.quota_us());
    write(&group.join("cpu.max"), &quota)?;
    write(&group.join("memory.max"), &limits.memory_bytes.to_string())?;
    // Absent where the kernel has no swap.
    let _ = write(&group.join("memory.swap.max"), "0");
    Ok(())
}
