//! The whole split on this machine: the origin, and the edge in front of it under `wrangler dev`.

mod local_secret;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal};
use shared::token::{Keys, User};
use signal_hook::consts::{SIGINT, SIGTERM};
use testbed::cache::workspace;
use testbed::{Error, Result, http, origin, process, wrangler};

use crate::setup;
use crate::step::step;

#[derive(clap::Args)]
pub struct UpArgs {
    /// Build the origin for speed (slow to build)
    #[arg(long)]
    release: bool,
    /// Leave the edge out
    #[arg(long)]
    origin_only: bool,
    /// The port of the edge; the origin's is PORT [3000]
    #[arg(long, value_name = "PORT", default_value_t = 8787)]
    edge_port: u16,
    /// Passed on to `origin dev`
    #[arg(last = true)]
    args: Vec<String>,
}

/// The edge's first start compiles it.
const START_LIMIT: Duration = Duration::from_secs(600);
const STOP_LIMIT: Duration = Duration::from_secs(12);

pub fn run(args: &UpArgs) -> Result<()> {
    let profile = if args.release { "release" } else { "dev" };
    let program = step("build of the origin", || origin::binary(profile))?;
    let tools = if args.origin_only {
        None
    } else {
        match step("set-up of the edge", setup::edge) {
            Ok(tools) => Some(tools),
            Err(error) => {
                eprintln!("no edge: {error}. Going on with the origin alone");
                None
            }
        }
    };
    let mut origin = Command::new(&program);
    origin.arg("dev").args(&args.args).current_dir(workspace());
    let Some(tools) = tools else {
        // It takes this process's place, so that it gets the terminal and its signals.
        let error = origin.exec();
        return Err(Error::new(format!(
            "cannot start {}: {error}",
            program.display()
        )));
    };
    step("build of the edge", || setup::build_edge(&tools))?;
    serve_both(origin, args.edge_port)
}

fn serve_both(mut origin: Command, edge_port: u16) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())
            .map_err(|error| Error::new(format!("cannot watch for Ctrl-C: {error}")))?;
    }

    let port = std::env::var("PORT").unwrap_or_else(|_| "3000".to_owned());
    let origin_url = format!("http://127.0.0.1:{port}");
    let edge_url = format!("http://127.0.0.1:{edge_port}");
    for (url, whose) in [(&origin_url, "PORT"), (&edge_url, "--edge-port")] {
        if http::get(url).is_ok() {
            return Err(Error::new(format!(
                "something answers on {url} already: stop it, or choose another port with {whose}"
            )));
        }
    }

    let secret = local_secret::ensure()?;
    // What it says on stdout is said below, for both.
    origin.env("JWT_SECRET", &secret).stdout(Stdio::null());
    let mut origin = Task::start("the origin", origin)?;
    origin.wait_for(&format!("{origin_url}/health"), &stop)?;
    let mut edge = Task::start("wrangler", wrangler::command(edge_port, &origin_url))?;
    edge.wait_for(&format!("{edge_url}/health"), &stop)?;

    if !stop.load(Ordering::Relaxed) {
        println!("{}", welcome(&origin_url, &edge_url, &token(&secret)));
    }
    while !stop.load(Ordering::Relaxed) {
        origin.must_run()?;
        edge.must_run()?;
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("stopping");
    Ok(())
}

/// A child whose output the user sees. Dropping it stops it, and all that it started.
struct Task {
    name: &'static str,
    child: Child,
}

impl Task {
    fn start(name: &'static str, mut command: Command) -> Result<Task> {
        // A group of its own: Ctrl-C reaches this process alone, which stops its tasks in order.
        command.stdin(Stdio::null()).process_group(0);
        let child = process::spawn(command, Signal::TERM)
            .map_err(|error| Error::new(format!("cannot start {name}: {error}")))?;
        Ok(Task { name, child })
    }

    fn must_run(&mut self) -> Result<()> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(Error::new(format!("{} ended ({status})", self.name))),
            Err(error) => Err(Error::new(format!("{}: {error}", self.name))),
        }
    }

    fn wait_for(&mut self, health: &str, stop: &AtomicBool) -> Result<()> {
        let start = Instant::now();
        while !http::get(health).is_ok_and(|answer| answer.status == 200) {
            self.must_run()?;
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if start.elapsed() > START_LIMIT {
                return Err(Error::new(format!("{} does not become healthy", self.name)));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        wrangler::stop_group(group, STOP_LIMIT, || self.must_run().is_err());
        let _ = self.child.wait();
    }
}

fn token(secret: &str) -> String {
    let user = User {
        id: 1,
        username: "golden_ember_1".to_owned(),
    };
    let now_s = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() as i64);
    Keys::new(secret.as_bytes()).sign(&user, now_s, now_s + 30 * 24 * 3_600)
}

fn welcome(origin_url: &str, edge_url: &str, token: &str) -> String {
    format!(
        "
  edge    {edge_url}    in front of
  origin  {origin_url}

  token of user 1 (golden_ember_1), good for 30 days:
  {token}

  curl -i {edge_url}/feed
  curl -i -X POST {edge_url}/posts/1/like -H 'Authorization: Bearer {token}'

Ctrl-C stops both."
    )
}

/// Where a file of secrets stands.
fn dev_vars() -> PathBuf {
    workspace().join(".dev.vars")
}
