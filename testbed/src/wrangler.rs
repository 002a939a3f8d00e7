//! `wrangler dev`: the edge as a developer runs it. Slow to start and costly; for measurements and
//! most tests there is [`crate::workerd`].

use std::ops::Deref;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::{Result, Server, cache, net};

/// The command that serves the edge in front of an origin. Its secrets are those of `.dev.vars`.
pub fn command(port: u16, origin_url: &str) -> Command {
    let programs = cache::workspace().join("node_modules/.bin");
    let mut path = programs.clone().into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut command = Command::new(programs.join("wrangler"));
    command
        .args(["dev", "--local", "--ip", "127.0.0.1"])
        .args(["--inspector-ip", "127.0.0.1", "--inspector-port"])
        .args([
            net::free_port().to_string(),
            "--port".into(),
            port.to_string(),
        ])
        .args(["--var".into(), format!("ORIGINS:{origin_url}")])
        .args(["--show-interactive-dev-session=false", "--log-level=warn"])
        .env("PATH", path)
        // It asks the network for nothing: no metrics, no sample of a request's `cf`.
        .env("WRANGLER_SEND_METRICS", "false")
        .env("CLOUDFLARE_CF_FETCH_ENABLED", "false")
        .env("CI", "1")
        .current_dir(cache::workspace());
    command
}

/// Ends a process group that [`crate::process::spawn`]'s caller made, politely at first: wrangler
/// starts others, and they must not outlive it.
pub fn stop_group(leader: Pid, limit: Duration, mut has_ended: impl FnMut() -> bool) {
    let _ = kill_process_group(leader, Signal::TERM);
    let _ = net::wait_until("the group to end", limit, || Ok(has_ended()));
    // The runtime ignores the other signal while a request hangs in it.
    let _ = kill_process_group(leader, Signal::KILL);
}

/// A running `wrangler dev`. Dropping it stops it and what it started.
#[derive(Debug)]
pub struct Wrangler(Server);

impl Wrangler {
    /// `secret` takes the place of `.dev.vars`. It shows in the list of processes: for tests.
    pub fn start(origin_url: &str, secret: &str) -> Result<Self> {
        let server = Server::start("wrangler dev", "/health", |port| {
            let mut command = command(port, origin_url);
            command.args(["--var", &format!("JWT_SECRET:{secret}")]);
            Ok(command)
        })?;
        Ok(Wrangler(server))
    }
}

impl Drop for Wrangler {
    fn drop(&mut self) {
        if let Some(leader) = Pid::from_raw(self.0.pid() as i32) {
            let server = &mut self.0;
            stop_group(leader, Duration::from_secs(5), || {
                server.wait(Duration::ZERO).is_ok()
            });
        }
    }
}

impl Deref for Wrangler {
    type Target = Server;
    fn deref(&self) -> &Server {
        &self.0
    }
}
