use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Context;
use crate::{Error, Result, process};

/// Where PostgreSQL's programs are, and the user they run as.
#[derive(Debug, Clone)]
pub struct Programs {
    folder: PathBuf,
    psql: PathBuf,
    run_as: Option<(u32, u32)>,
}

impl Programs {
    pub fn find() -> Result<Self> {
        let on_path: Vec<PathBuf> =
            std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
        let folder = (on_path.iter().filter_map(|folder| real_folder(folder)))
            .chain(packaged())
            .find(|folder| folder.join("postgres").exists())
            .ok_or_else(|| {
                Error::new(
                    "PostgreSQL's programs (initdb, postgres) are neither in PATH nor in \
                     /usr/lib/postgresql/*/bin: install version 14 or newer \
                     (Debian, Ubuntu: apt-get install postgresql; Fedora: dnf install \
                     postgresql-server)",
                )
            })?;
        let psql = std::iter::once(&folder)
            .chain(&on_path)
            .map(|folder| folder.join("psql"))
            .find(|program| program.exists())
            .ok_or_else(|| Error::new("psql is not in PATH: install PostgreSQL's client"))?;
        Ok(Programs {
            folder,
            psql,
            run_as: user_instead_of_root()?,
        })
    }

    /// A program of PostgreSQL, set to run as a user it accepts.
    pub fn command(&self, program: &str) -> Command {
        let mut command = clean(Command::new(self.folder.join(program)));
        self.set_user(&mut command);
        command
    }

    pub fn psql(&self) -> Command {
        clean(Command::new(&self.psql))
    }

    /// Gives a file or folder to the user the programs run as.
    pub fn own(&self, path: &Path) -> Result<()> {
        if let Some((uid, gid)) = self.run_as {
            std::os::unix::fs::chown(path, Some(uid), Some(gid))
                .context(|| format!("cannot hand over {}", path.display()))?;
        }
        Ok(())
    }

    /// `postgres (PostgreSQL) 15.18 (Debian …)` → 15
    pub fn major_version(&self) -> Result<u32> {
        let mut postgres = self.command("postgres");
        postgres.arg("--version");
        let text = process::run(postgres)?;
        let number = text
            .split_whitespace()
            .find_map(|word| word.split('.').next()?.parse().ok());
        number.ok_or_else(|| Error::new(format!("cannot tell the version of {}", text.trim())))
    }

    fn set_user(&self, command: &mut Command) {
        if let Some((uid, gid)) = self.run_as {
            command.gid(gid).uid(uid);
        }
        // The folder this process is in may be closed to that user.
        command.current_dir("/");
    }
}

/// Settings of the caller's own servers must not reach this one.
fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_setting(name)) {
        command.env_remove(name);
    }
    command
}

fn is_setting(name: &OsString) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("PG"))
}

/// Debian puts links into PATH; the server needs the folder they point to.
fn real_folder(folder: &Path) -> Option<PathBuf> {
    let program = fs::canonicalize(folder.join("initdb")).ok()?;
    program.parent().map(Path::to_owned)
}

/// Where packages put versions beside each other, newest first.
fn packaged() -> Vec<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for (root, prefix) in [("/usr/lib/postgresql", ""), ("/usr", "pgsql-")] {
        for entry in fs::read_dir(root).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let version = name.strip_prefix(prefix).and_then(|rest| rest.parse().ok());
            if let Some(version) = version {
                found.push((version, entry.path().join("bin")));
            }
        }
    }
    found.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    found.into_iter().map(|(_, folder)| folder).collect()
}

/// PostgreSQL refuses to run as root.
fn user_instead_of_root() -> Result<Option<(u32, u32)>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let passwd = fs::read_to_string("/etc/passwd").context(|| "cannot read /etc/passwd".into())?;
    let find = |wanted: &str| {
        passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            (name == wanted).then_some((uid, gid))
        })
    };
    (find("postgres").or_else(|| find("nobody")))
        .map(Some)
        .ok_or_else(|| {
            Error::new("PostgreSQL does not run as root, and there is no user postgres or nobody")
        })
}
