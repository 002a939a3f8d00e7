use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Result;
use crate::error::Context;

const PREFIX: &str = "onebox-";
const OWNER: &str = "owner.lock";

/// A folder that goes away with the value, also when the test panics.
///
/// A process that is killed cannot tidy up. So each folder holds a file that its owner
/// keeps locked: whoever makes the next folder removes those whose owner is gone.
#[derive(Debug)]
pub struct TempDir {
    dir: tempfile::TempDir,
    _owner: File,
}

impl TempDir {
    /// In the system's temporary folder, not in the build's: paths stay short enough for
    /// a unix socket, and a server that runs as another user can get there.
    pub fn new(purpose: &str) -> Result<Self> {
        let root = std::env::temp_dir();
        remove_abandoned(&root);
        let dir = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{purpose}-"))
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in(&root)
            .context(|| format!("cannot create a folder in {}", root.display()))?;
        let owner = File::create(dir.path().join(OWNER))
            .and_then(|file| file.lock().map(|()| file))
            .context(|| format!("cannot lock {}", dir.path().display()))?;
        Ok(TempDir { dir, _owner: owner })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }
}

fn remove_abandoned(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else {
        return;
    };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // A folder this young may not be locked by its owner yet.
        let is_old = (entry.metadata().and_then(|meta| meta.modified()).ok())
            .and_then(|modified| modified.elapsed().ok())
            .is_some_and(|age| age > Duration::from_secs(60));
        let is_abandoned =
            || File::open(entry.path().join(OWNER)).is_ok_and(|owner| owner.try_lock().is_ok());
        if is_old && is_abandoned() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn a_folder_goes_away_with_its_value() {
        let dir = TempDir::new("test").unwrap();
        let path = dir.path().to_owned();
        fs::create_dir_all(path.join("a/b")).unwrap();
        drop(dir);
        assert!(!path.exists());
    }

    #[test]
    fn only_folders_without_an_owner_are_swept() {
        let root = TempDir::new("sweep").unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        let make = |name: &str| {
            let path = root.join(format!("{PREFIX}{name}"));
            fs::create_dir(&path).unwrap();
            let owner = File::create(path.join(OWNER)).unwrap();
            File::open(&path).unwrap().set_modified(long_ago).unwrap();
            (path, owner)
        };
        let (held, owner) = make("held");
        owner.lock().unwrap();
        let (abandoned, _) = make("abandoned");
        let foreign = root.join("foreign");
        fs::create_dir(&foreign).unwrap();

        remove_abandoned(root.path());
        assert!(held.exists() && foreign.exists());
        assert!(!abandoned.exists());
    }
}
