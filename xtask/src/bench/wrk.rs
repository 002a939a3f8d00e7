use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use testbed::process::{self, CpuTime};
use testbed::{Error, Result, TempDir};

use super::subject::Subject;

pub const CONNECTIONS: u32 = 64;
pub const ENDPOINTS: [&str; 6] = ["health", "post", "feed", "mix", "like", "create"];

/// What a generator needs besides the server.
pub struct Wrk {
    script: PathBuf,
    tokens: PathBuf,
    _dir: TempDir,
}

pub struct Counted {
    pub requests: u64,
    pub requests_per_s: f64,
    pub p50_us: u64,
    pub p99_us: u64,
    pub failures: u64,
    /// Of the generator itself.
    pub cpu: CpuTime,
    pub duration_s: f64,
}

impl Wrk {
    pub fn new(tokens: &[String]) -> Result<Self> {
        let dir = TempDir::new("wrk")?;
        let (script, token_file) = (dir.join("load.lua"), dir.join("tokens"));
        let write = |path: &PathBuf, text: &str| {
            fs::write(path, text)
                .map_err(|error| Error::new(format!("cannot write {}: {error}", path.display())))
        };
        write(&script, include_str!("load.lua"))?;
        write(&token_file, &tokens.join("\n"))?;
        Ok(Wrk {
            script,
            tokens: token_file,
            _dir: dir,
        })
    }

    pub fn run(
        &self,
        subject: &Subject,
        endpoint: &str,
        seconds: u32,
        seed: u32,
    ) -> Result<Counted> {
        let mut wrk = self.command(&subject.server.base_url(), endpoint, seconds);
        wrk.args([seed.to_string(), subject.posts.to_string()])
            .arg(&self.tokens)
            .arg(subject.newest.join(","))
            .arg(if subject.has_feed() { "yes" } else { "no" });
        count(wrk, endpoint)
    }

    /// The feed alone, of any server.
    pub fn feed(&self, base_url: &str, seconds: u32) -> Result<Counted> {
        let mut wrk = self.command(base_url, "feed", seconds);
        wrk.args(["1", "1"]).arg(&self.tokens).args(["", "no"]);
        count(wrk, "feed")
    }

    fn command(&self, base_url: &str, endpoint: &str, seconds: u32) -> Command {
        let mut wrk = Command::new("wrk");
        wrk.args(["-t", "1", "-c", &CONNECTIONS.to_string()])
            .args(["-d", &format!("{seconds}s"), "--timeout", "10s", "-s"])
            .arg(&self.script)
            .args([base_url, "--", endpoint]);
        wrk
    }
}

fn count(wrk: Command, endpoint: &str) -> Result<Counted> {
    let before = process::cpu_time_of_ended_children();
    let output = process::run(wrk)?;
    let cpu = process::cpu_time_of_ended_children() - before;
    let unclear = || Error::new(format!("wrk said something unexpected: {output}"));
    let line = output.lines().find_map(|line| line.strip_prefix("RESULT "));
    let result: Value = line
        .and_then(|json| serde_json::from_str(json).ok())
        .ok_or_else(unclear)?;
    let number = |name: &str| result[name].as_u64().ok_or_else(unclear);
    let requests = number("requests")?;
    let duration_s = number("duration_us")? as f64 / 1e6;
    if requests == 0 {
        return Err(Error::new(format!(
            "{endpoint}: no request was answered: {output}"
        )));
    }
    Ok(Counted {
        requests,
        requests_per_s: requests as f64 / duration_s,
        p50_us: number("p50_us")?,
        p99_us: number("p99_us")?,
        failures: number("failed_statuses")? + number("socket_errors")?,
        cpu,
        duration_s,
    })
}
