//! Version 1: a tree for each controller, and a group in each.

use std::fs;
use std::path::{Path, PathBuf};

use testbed::{Error, Result};

use super::{Confinement, Door, Enclosure, Kind, Limits, PERIOD_US, write};

const CONTROLLERS: [&str; 3] = ["cpu", "cpuacct", "memory"];

pub(super) fn enclose(root: &Path, name: &str, limits: Limits) -> Result<Enclosure> {
    let mut parents: Vec<PathBuf> = CONTROLLERS.map(|c| root.join(c)).to_vec();
    // cpu and cpuacct are often one tree, by a link.
    parents.dedup_by_key(|parent| fs::canonicalize(&*parent).unwrap_or_else(|_| parent.clone()));
    let mut enclosure = Enclosure::in_folders(Kind::V1, &parents, name)?;
    enclosure.unlimited = limit(&enclosure.confinement, limits)?;
    enclosure.door = Door::Folders(enclosure.folders().to_vec());
    Ok(enclosure)
}

/// Returns what the kernel would not limit.
pub(super) fn limit(group: &Confinement, limits: Limits) -> Result<Vec<&'static str>> {
    let find = |file: &str| {
        (group.file(file)).ok_or_else(|| Error::new(format!("the control group has no {file}")))
    };
    write(&find("cpu.cfs_period_us")?, &PERIOD_US.to_string())?;
    write(&find("cpu.cfs_quota_us")?, &limits.quota_us().to_string())?;
    let memory = limits.memory_bytes.to_string();
    if write(&find("memory.limit_in_bytes")?, &memory).is_err() {
        return Ok(vec!["memory"]);
    }
    // No more with swap than without. Absent where the kernel does not account for swap.
    match group.file("memory.memsw.limit_in_bytes") {
        Some(file) if write(&file, &memory).is_err() => Ok(vec!["swap"]),
        _ => Ok(Vec::new()),
    }
}
