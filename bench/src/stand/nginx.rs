//! Debian's Nginx as people put it before such an application: a cache of a second, one
//! request at a time to fill it.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use testbed::process::{Prepare, Process, Signal};
use testbed::{Error, Result, TempDir, free_port, http, wait_until};

/// A running Nginx. Should this program die it is asked to stop, not killed: only then does its
/// master process take the workers along.
pub struct Nginx {
    process: Process,
    port: u16,
    _folder: TempDir,
}

const START_LIMIT: Duration = Duration::from_secs(20);

impl Nginx {
    pub fn start(origin_port: u16, prepare: Prepare) -> Result<Nginx> {
        let folder = TempDir::new("nginx")?;
        let prefix = folder.join("prefix");
        let port = free_port();
        let config = prefix.join("nginx.conf");
        let text = include_str!("nginx.conf")
            .replace("$PREFIX", &prefix.display().to_string())
            .replace("$LISTEN", &port.to_string())
            .replace("$ORIGIN", &origin_port.to_string());
        fs::create_dir(&prefix)
            .and_then(|()| fs::set_permissions(&prefix, fs::Permissions::from_mode(0o755)))
            .and_then(|()| fs::write(&config, text))
            .map_err(|error| Error::new(format!("cannot write {}: {error}", config.display())))?;
        let mut command = Command::new(program()?);
        command.args(["-e", "stderr", "-p"]).arg(&prefix);
        command.arg("-c").arg(&config);
        prepare(&mut command)?;
        let process = Process::start_with("Nginx", command, Signal::TERM)?;
        let mut nginx = Nginx {
            process,
            port,
            _folder: folder,
        };
        let health = format!("http://{}/health", nginx.address());
        wait_until("Nginx to be healthy", START_LIMIT, || {
            if nginx.process.has_exited().is_some() {
                let said = nginx.process.log().tail();
                return Err(Error::new(format!("Nginx did not start: {said}")));
            }
            Ok(http::get(&health).is_ok_and(|answer| answer.status == 200))
        })?;
        Ok(nginx)
    }

    pub fn address(&self) -> SocketAddr {
        (std::net::Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// Debian keeps it out of ordinary users' PATH.
fn program() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .map(|folder| folder.join("nginx"))
        .find(|program| program.is_file())
        .ok_or_else(|| Error::new("Nginx is not installed: apt-get install nginx-light"))
}
