use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::stage::{deploy, has};

fn scripts_in(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            scripts_in(&path, found);
        } else if fs::read(&path).unwrap().starts_with(b"#!/bin/") {
            found.push(path);
        }
    }
}

#[test]
fn shellcheck_finds_nothing_in_any_script() {
    if !has("shellcheck") {
        return;
    }
    let mut scripts = vec![deploy("../testbed/src/machine/boot.sh")];
    scripts_in(&deploy(""), &mut scripts);
    assert!(scripts.len() > 5);
    let output = Command::new("shellcheck").args(&scripts).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
