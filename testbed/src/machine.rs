//! A fresh Debian with a real systemd, booted in namespaces: its own processes, network, control
//! groups and files. Every change stays in memory and goes away with it.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::process::Process;
use crate::{Error, Result, TempDir, cache, process, wait_until};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

pub struct Machine {
    init: u32,
    _process: Process,
    _work: TempDir,
}

/// Installed from the start, as on a droplet.
const BASE: &str = "systemd,systemd-sysv,dbus,ca-certificates,iproute2,procps,curl";

/// At hand as files, since the machine has no network: what install.sh installs.
const AT_HAND: &str = "postgresql nginx nftables sqlite3 logrotate";

/// Names another release than this machine's, and where it is to be had if not at the same place:
/// `CODENAME [URL]`. One that is as new as this one, or programs built here do not run there.
const RELEASE_VARIABLE: &str = "TESTBED_MACHINE";

impl Machine {
    /// `None`: it cannot be had here, and the reason was printed.
    pub fn boot() -> Option<Machine> {
        if let Some(reason) = cannot_be_had() {
            println!("SKIPPED: {reason}");
            return None;
        }
        Some(Self::try_boot().unwrap_or_else(|error| panic!("{error}")))
    }

    fn try_boot() -> Result<Machine> {
        let system = system()?;
        let work = TempDir::new("machine")?;
        // An overlay's lower folder stays as it is; only `boot.sh` writes, into memory.
        let mut unshare = Command::new("unshare");
        unshare
            .args(["--mount", "--pid", "--uts", "--ipc", "--cgroup", "--net"])
            .args(["--fork", "--kill-child", "bash"])
            .arg(cache::workspace().join("testbed/src/machine/boot.sh"))
            .arg(system.path.join("root"))
            .arg(work.path());
        let mut process = Process::start("the machine", unshare)?;
        let mut init = None;
        wait_until("the machine to boot", Duration::from_secs(60), || {
            if let Some(status) = process.has_exited() {
                process.kill();
                let said = process.log().tail();
                return Err(Error::new(format!(
                    "the machine did not boot ({status}): {said}"
                )));
            }
            init = process::tree(process.pid()).get(1).copied();
            Ok(init.is_some_and(|init| {
                // Before boot.sh has become init, its root is still this machine's.
                fs::read_to_string(format!("/proc/{init}/comm"))
                    .is_ok_and(|name| name.trim() == "systemd")
                    && enter(
                        init,
                        "systemctl is-system-running | grep -q -e running -e degraded",
                    )
                    .output()
                    .is_ok_and(|output| output.status.success())
            }))
        })?;
        let init = init.ok_or_else(|| Error::new("the machine has no init"))?;
        Ok(Machine {
            init,
            _process: process,
            _work: work,
        })
    }

    /// Runs a shell script as root; what it printed, without the last line's end.
    pub fn run(&self, script: &str) -> String {
        match self.attempt(script) {
            (true, said) => said,
            (false, said) => panic!("{script}\nfailed: {said}"),
        }
    }

    /// The same, whether or not it succeeds.
    pub fn attempt(&self, script: &str) -> (bool, String) {
        let output = enter(self.init, &format!("exec 2>&1\n{script}"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned();
        (output.status.success(), said)
    }

    /// Copies a file or folder into the machine, at this absolute path.
    pub fn put(&self, from: &Path, to: &str) {
        let to = PathBuf::from(format!("/proc/{}/root{to}", self.init));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        cache::copy(from, &to).unwrap();
    }

    /// Its network, as a file that `nsenter` takes.
    pub fn network(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.init).into()
    }

    /// Runs `work` on a thread in the machine's network; threads that it starts are there too.
    pub fn in_network<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let network = File::open(self.network()).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
                    .unwrap();
                work()
            });
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

fn enter(init: u32, script: &str) -> Command {
    let mut command = Command::new("nsenter");
    command
        .args([
            "--target",
            &init.to_string(),
            "--all",
            "--root",
            "env",
            "-i",
            "-C",
            "/",
        ])
        .args([
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME=/root",
        ])
        .args(["bash", "-c", script])
        .stdin(Stdio::null());
    command
}

/// Why no machine can be booted here.
pub fn cannot_be_had() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("booting a machine in namespaces wants root".to_owned());
    }
    for program in ["debootstrap", "unshare", "nsenter"] {
        let mut probe = Command::new(program);
        probe.arg("--version").env("PATH", path_with_sbin());
        if probe.output().is_err() {
            return Some(format!("{program} is not installed"));
        }
    }
    if Release::wanted().is_none() {
        return Some("no machine can be made of this system: it is no Debian or Ubuntu".to_owned());
    }
    // A container that is not allowed to make namespaces cannot hold a machine.
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--pid", "--cgroup", "--net", "--fork", "true"]);
    match unshare.output() {
        Ok(output) if output.status.success() => None,
        _ => Some("this container or kernel makes no namespaces".to_owned()),
    }
}

/// Makes what machines boot from, if that is not there yet: it takes a minute or more.
pub fn prepare() -> Result<()> {
    system().map(drop)
}

/// System programs too, which users other than root may not have in theirs.
pub fn path_with_sbin() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/sbin:/sbin")
}

/// What a machine is made of: this machine's release of Debian or Ubuntu, unless another is named.
struct Release {
    codename: String,
    site: Option<String>,
}

impl Release {
    fn wanted() -> Option<Release> {
        if let Ok(named) = std::env::var(RELEASE_VARIABLE) {
            let (codename, site) = match named.split_once(' ') {
                Some((codename, site)) => (codename.to_owned(), Some(site.to_owned())),
                None => (named, package_site()),
            };
            return Some(Release { codename, site });
        }
        let release = fs::read_to_string("/etc/os-release").ok()?;
        let field = |name: &str| {
            let value = release.lines().find_map(|line| line.strip_prefix(name))?;
            Some(value.trim_matches('"').to_owned())
        };
        field("ID=").filter(|id| id == "debian" || id == "ubuntu")?;
        Some(Release {
            codename: field("VERSION_CODENAME=")?,
            site: package_site(),
        })
    }
}

fn system() -> Result<cache::Kept> {
    let Release { codename, site } =
        Release::wanted().ok_or_else(|| Error::new("this is no Debian or Ubuntu"))?;
    let mut key = DefaultHasher::new();
    (BASE, AT_HAND).hash(&mut key);
    let key = key.finish();
    cache::folder(&format!("machine-{codename}"), key, |folder| {
        let root = folder.join("root");
        let mut debootstrap = Command::new("debootstrap");
        debootstrap
            .args(["--variant=minbase", &format!("--include={BASE}"), &codename])
            .arg(&root)
            .env("PATH", path_with_sbin());
        // Where this machine's own packages come from, and debootstrap's own choice elsewhere.
        if let Some(site) = &site {
            debootstrap.arg(site);
        }
        process::run(debootstrap)?;
        // A machine has no terminals, and mounts nothing of the kernel's.
        for unit in [
            "console-getty.service",
            "getty@.service",
            "systemd-udevd.service",
        ] {
            let _ =
                std::os::unix::fs::symlink("/dev/null", root.join("etc/systemd/system").join(unit));
        }
        let mut chroot = Command::new("chroot");
        chroot
            .arg(&root)
            .args(["sh", "-c"])
            .arg(format!(
                "rm -f /etc/apt/apt.conf.d/docker-clean /var/cache/apt/archives/*.deb && apt-get -q update && \
                 apt-get -q -y -d --no-install-recommends install {AT_HAND}"
            ))
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        process::run(chroot).map(drop)
    })
}

fn package_site() -> Option<String> {
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", "$(SITE)"])
        .output()
        .ok()?;
    let sites = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_main = |site: &&str| site.starts_with("http") && !site.ends_with("security");
    sites.lines().find(is_main).map(str::to_owned)
}
