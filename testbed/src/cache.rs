//! Things that take long to make and never change: made once, kept in the build folder.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Context;
use crate::process;
use crate::{Error, Result};

/// A kept folder. It stays as long as the value lives, whatever other processes do.
#[derive(Debug)]
pub struct Kept {
    pub path: PathBuf,
    _shared: File,
}

/// Returns the folder `name`, made by `make` for this `key` if it is not there yet.
///
/// Tests run as many processes: the first one makes it, the others wait. A folder of the
/// same name with another key is out of date and replaced.
pub fn folder(name: &str, key: u64, make: impl FnMut(&Path) -> Result<()>) -> Result<Kept> {
    let root = build_folder().join("testbed");
    fs::create_dir_all(&root).context(|| format!("cannot create {}", root.display()))?;
    folder_in(&root, name, key, make)
}

fn folder_in(
    root: &Path,
    name: &str,
    key: u64,
    mut make: impl FnMut(&Path) -> Result<()>,
) -> Result<Kept> {
    let path = root.join(name);
    let key_file = root.join(format!("{name}.key"));
    let lock_path = root.join(format!("{name}.lock"));
    let locking = || format!("cannot lock {}", lock_path.display());
    let is_made =
        || path.exists() && fs::read_to_string(&key_file).is_ok_and(|text| text == key.to_string());

    let lock = File::create(&lock_path).context(locking)?;
    loop {
        lock.lock_shared().context(locking)?;
        if is_made() {
            return Ok(Kept {
                path,
                _shared: lock,
            });
        }
        lock.unlock().context(locking)?;
        // Another process may make it while this one waits here.
        lock.lock().context(locking)?;
        if !is_made() {
            let making = || format!("cannot make {}", path.display());
            let _ = fs::remove_file(&key_file);
            if path.exists() {
                fs::remove_dir_all(&path).context(making)?;
            }
            fs::create_dir(&path).context(making)?;
            make(&path)?;
            // Last, so that an interrupted making is not taken for a finished one.
            fs::write(&key_file, key.to_string()).context(making)?;
        }
        lock.unlock().context(locking)?;
    }
}

/// A key made from the contents of files and folders.
pub fn key_of(sources: &[PathBuf]) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    for source in sources {
        hash_tree(source, &mut hasher)?;
    }
    Ok(hasher.finish())
}

fn hash_tree(path: &Path, hasher: &mut DefaultHasher) -> Result<()> {
    let reading = || format!("cannot read {}", path.display());
    if path.is_dir() {
        let mut entries: Vec<PathBuf> = (fs::read_dir(path).context(reading)?)
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        entries.sort();
        for entry in entries {
            hash_tree(&entry, hasher)?;
        }
    } else if path.exists() {
        path.file_name().hash(hasher);
        fs::read(path).context(reading)?.hash(hasher);
    }
    Ok(())
}

/// Copies a file or folder with owners and modes, sharing blocks where the file system can.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut cp = Command::new("cp");
    cp.args(["-a", "--reflink=auto", "--"]).arg(from).arg(to);
    process::run(cp).map(drop)
}

/// Builds the program of the same name as its package, with cargo's progress on stderr, and
/// returns where it is.
pub fn build(package: &str, profile: &str) -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--package", package, "--bin", package])
        .args(["--profile", profile, "--target-dir"])
        .arg(build_folder())
        .current_dir(workspace());
    let status = process::spawn(cargo, process::Signal::KILL)
        .and_then(|mut child| child.wait())
        .context(|| "cannot run cargo".into())?;
    if !status.success() {
        return Err(Error::new(format!("{package} could not be built")));
    }
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(build_folder().join(folder).join(package))
}

/// The folder cargo builds in: this program came from there.
pub fn build_folder() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let marked = program
        .ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").exists());
    marked.map_or_else(|| workspace().join("target"), Path::to_owned)
}

/// The workspace's root.
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TempDir;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_folder_is_made_once_per_key() {
        let root = TempDir::new("cache").unwrap();
        let made = AtomicUsize::new(0);
        let make = |path: &Path| {
            made.fetch_add(1, Ordering::SeqCst);
            assert_eq!(fs::read_dir(path).unwrap().count(), 0);
            fs::write(path.join("file"), "x").unwrap();
            Ok(())
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let kept = folder_in(root.path(), "thing", 1, make).unwrap();
                    assert!(kept.path.join("file").exists());
                });
            }
        });
        assert_eq!(made.load(Ordering::SeqCst), 1);
        folder_in(root.path(), "thing", 2, make).unwrap();
        assert_eq!(made.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn a_making_that_failed_is_begun_again() {
        let root = TempDir::new("cache").unwrap();
        folder_in(root.path(), "thing", 1, |_| Err(Error::new("no"))).unwrap_err();
        let mut again = false;
        folder_in(root.path(), "thing", 1, |_| {
            again = true;
            Ok(())
        })
        .unwrap();
        assert!(again);
    }
}
