//! The challenge's submission: one folder that builds and serves without the rest of this
//! workspace.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::cache::workspace;
use testbed::{Error, Result};

use crate::step::step;

#[derive(clap::Args)]
pub struct Args {
    /// A folder that is empty or not there yet
    dir: PathBuf,
}

/// What serves, and what that needs of this workspace.
const CRATES: [&str; 2] = ["shared", "origin"];

/// What of a crate a build needs: tests and measurements stay behind, build output too.
const CRATE_ITEMS: [&str; 4] = ["Cargo.toml", "build.rs", "src", "migrations"];

pub fn run(args: &Args) -> Result<()> {
    let dir = &args.dir;
    step("sources", || assemble(dir))?;
    step("lock file", || trim_lock_file(dir))?;
    println!("{} is ready: see its README.md", dir.display());
    Ok(())
}

fn assemble(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(|error| cannot("create", dir, error))?;
    let mut entries = fs::read_dir(dir).map_err(|error| cannot("read", dir, error))?;
    if entries.next().is_some() {
        return Err(Error::new(format!(
            "{} is not empty: name a new folder",
            dir.display()
        )));
    }
    let root = workspace();
    let mut used = BTreeSet::new();
    for name in CRATES {
        let (from, to) = (root.join(name), dir.join(name));
        fs::create_dir(&to).map_err(|error| cannot("create", &to, error))?;
        for item in CRATE_ITEMS {
            copy(&from.join(item), &to.join(item))?;
        }
        let manifest = without_section(&read(&from.join("Cargo.toml"))?, "[dev-dependencies]");
        used.extend(workspace_dependencies(&manifest));
        write(&to.join("Cargo.toml"), &manifest)?;
    }
    let manifest = root_manifest(&read(&root.join("Cargo.toml"))?, &used);
    write(&dir.join("Cargo.toml"), &manifest)?;
    copy(&root.join("Cargo.lock"), &dir.join("Cargo.lock"))?;
    let flags = without_section(&read(&root.join(".cargo/config.toml"))?, "[alias]");
    fs::create_dir(dir.join(".cargo")).map_err(|error| cannot("create", dir, error))?;
    write(&dir.join(".cargo/config.toml"), &flags)?;
    write(&dir.join(".gitignore"), "/target\n")?;
    for file in ["install.sh", "build.sh", "start.sh", "README.md"] {
        copy(&root.join("deploy/challenge").join(file), &dir.join(file))?;
    }
    Ok(())
}

/// Without the packages that only the rest of the workspace uses; the others keep their versions.
fn trim_lock_file(dir: &Path) -> Result<()> {
    let before = locked(&read(&dir.join("Cargo.lock"))?);
    let update = |offline: &[&str]| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .args(["update", "--workspace", "--quiet"])
            .args(offline)
            .current_dir(dir);
        crate::cargo::run(command)
    };
    // What this workspace was built from is at hand: nothing has to be asked.
    update(&["--offline"]).or_else(|_| update(&[]))?;
    let after = locked(&read(&dir.join("Cargo.lock"))?);
    match after.difference(&before).next() {
        None => Ok(()),
        Some(package) => Err(Error::new(format!(
            "the trimmed lock file has {package}, which the workspace's has not"
        ))),
    }
}

/// `name version` of every package of a lock file.
fn locked(lock_file: &str) -> BTreeSet<String> {
    let mut name = "";
    let mut packages = BTreeSet::new();
    for line in lock_file.lines() {
        if let Some(value) = line.strip_prefix("name = ") {
            name = value;
        } else if let Some(version) = line.strip_prefix("version = ") {
            packages.insert(format!("{name} {version}").replace('"', ""));
        }
    }
    packages
}

fn without_section(manifest: &str, section: &str) -> String {
    let mut inside = false;
    let kept = manifest.lines().filter(|line| {
        if line.starts_with('[') {
            inside = *line == section;
        }
        !inside
    });
    tidy(kept)
}

/// The names that a crate takes from `[workspace.dependencies]`.
fn workspace_dependencies(manifest: &str) -> impl Iterator<Item = String> {
    manifest.lines().filter_map(|line| {
        let (name, rest) = line.split_once(['.', ' '])?;
        let takes = rest.starts_with("workspace") || rest.contains("workspace = true");
        takes.then(|| name.to_owned())
    })
}

/// The workspace's manifest with these crates and dependencies alone.
fn root_manifest(manifest: &str, used: &BTreeSet<String>) -> String {
    let mut kept = Vec::new();
    let mut section = "";
    // Comments stand above what they are about, and go with it.
    let mut comments = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('#') {
            comments.push(line);
            continue;
        }
        if line.starts_with('[') {
            section = line;
        }
        let name = line.split(['.', ' ']).next().unwrap_or_default();
        let keep = match section {
            _ if line.is_empty() || line.starts_with('[') => true,
            "[workspace]" => name != "default-members",
            "[workspace.dependencies]" => used.contains(name),
            _ => true,
        };
        if keep {
            kept.append(&mut comments);
            kept.push(line);
        }
        comments.clear();
    }
    let members = format!("members = {CRATES:?}");
    tidy(kept.into_iter().map(|line| match line {
        line if line.starts_with("members = ") => &members,
        line => line,
    }))
}

/// Lines with one empty one between sections and none at the end.
fn tidy<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for line in lines {
        if !line.is_empty() || !(text.is_empty() || text.ends_with("\n\n")) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.exists() {
        testbed::cache::copy(from, to)?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| cannot("read", path, error))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| cannot("write", path, error))
}

fn cannot(what: &str, path: &Path, error: std::io::Error) -> Error {
    Error::new(format!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_keeps_what_is_used_with_its_comments() {
        let used = workspace_dependencies(
            "[dependencies]\na.workspace = true\nb = { workspace = true }\n",
        );
        let used: BTreeSet<_> = used.collect();
        let manifest = "\
[workspace]
members = [\"shared\", \"xtask\"]
# Why not all.
default-members = [\"shared\"]

[workspace.dependencies]
# Why a.
a = \"1\"
# Why c.
c = \"1\"
b = \"2\"

[profile.release]
# Why lto.
lto = true
";
        let expected = "\
[workspace]
members = [\"shared\", \"origin\"]

[workspace.dependencies]
# Why a.
a = \"1\"
b = \"2\"

[profile.release]
# Why lto.
lto = true
";
        assert_eq!(root_manifest(manifest, &used), expected);
    }

    #[test]
    fn a_section_goes_with_all_its_lines() {
        let text = "[a]\nx = 1\n\n[dev-dependencies]\ny = 1\n\n[b]\nz = 1\n";
        assert_eq!(
            without_section(text, "[dev-dependencies]"),
            "[a]\nx = 1\n\n[b]\nz = 1\n"
        );
    }
}
