//! Debian's Nginx as people put it before such an application: a cache of a second, one
//! request at a time to fill it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use testbed::{Error, Result, Server, TempDir};

pub fn start(folder: &TempDir, origin_port: u16) -> Result<Server> {
    let program = [
        "/usr/sbin/nginx",
        "/usr/local/sbin/nginx",
        "/usr/local/nginx/sbin/nginx",
    ]
    .into_iter()
    .find(|path| fs::exists(path).unwrap_or(false))
    .ok_or_else(|| Error::new("Nginx is not installed: apt-get install nginx-light (or nginx)"))?;
    let prefix = folder.join("nginx");
    let made = fs::create_dir(&prefix)
        .and_then(|()| fs::set_permissions(&prefix, fs::Permissions::from_mode(0o755)));
    made.map_err(|error| Error::new(format!("cannot create {}: {error}", prefix.display())))?;
    Server::start("Nginx", "/health", |port| {
        let file = prefix.join("nginx.conf");
        let text = include_str!("nginx.conf")
            .replace("$PREFIX", &prefix.display().to_string())
            .replace("$LISTEN", &port.to_string())
            .replace("$ORIGIN", &origin_port.to_string());
        fs::write(&file, text)
            .map_err(|error| Error::new(format!("cannot write {}: {error}", file.display())))?;
        let mut nginx = Command::new(program);
        nginx
            .arg("-e")
            .arg("stderr")
            .arg("-p")
            .arg(&prefix)
            .arg("-c")
            .arg(&file);
        Ok(nginx)
    })
}
