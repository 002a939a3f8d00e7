//! One load level.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use testbed::{Error, Result};

use super::print;
use super::setting::{Setting, SettingArgs, TimingArgs};
use crate::engine::{Shape, Target};
use crate::level::Subject;
use crate::topology::Topology;

#[derive(clap::Args)]
pub struct Args {
    /// What to start and measure: alone, origin-cache or nginx, with :sqlite or :postgres
    #[arg(required_unless_present = "base_url", conflicts_with = "base_url")]
    topology: Option<Topology>,
    /// Measure a server that runs already; its CPU is then not accounted for
    #[arg(long, requires = "tokens")]
    base_url: Option<String>,
    /// The tokens of that server's users, as `origin seed --tokens` writes them
    #[arg(long, value_name = "FILE", requires = "base_url")]
    tokens: Option<PathBuf>,
    #[command(flatten)]
    shape: ShapeArgs,
    #[command(flatten)]
    timing: TimingArgs,
    #[command(flatten)]
    setting: SettingArgs,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct ShapeArgs {
    /// Closed loop: so many users
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    users: Option<u32>,
    /// Open loop: so many requests a second
    #[arg(long, value_parser = rate)]
    rate: Option<f64>,
    /// No thinking: 64 connections, one request after another
    #[arg(long, value_enum)]
    hammer: Option<Target>,
}

const HAMMER_CONNECTIONS: u32 = 64;

pub fn rate(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.1..=1e6).contains(&rate) => Ok(rate),
        _ => Err("want requests a second, from 0.1 to 1000000".to_owned()),
    }
}

impl ShapeArgs {
    fn shape(&self) -> Shape {
        match (self.users, self.rate, self.hammer) {
            (Some(users), ..) => Shape::Users { users },
            (_, Some(per_second), _) => Shape::arrivals(per_second),
            (_, _, target) => Shape::Hammer {
                target: target.unwrap_or(Target::Mix),
                connections: HAMMER_CONNECTIONS,
            },
        }
    }
}

pub fn run(args: &Args) -> Result<()> {
    let mut setting = Setting::new("run", &args.setting)?;
    let (_stand, subject) = match (&args.topology, &args.base_url, &args.tokens) {
        (Some(topology), ..) => {
            let (stand, subject) = setting.stand(*topology)?;
            (Some(stand), subject)
        }
        (_, Some(url), Some(tokens)) => (None, elsewhere(url, tokens, &setting)?),
        _ => return Err(Error::new("name a topology, or a --base-url with --tokens")),
    };
    let load = subject.load(args.shape.shape(), args.timing.timing(), args.setting.seed);
    setting.progress.level(format!("run {}", subject.name));
    let level = subject.measure(&load, 1, &mut setting.progress)?;
    print::level(&level);
    setting.results.levels.push(level);
    setting.save()?;
    println!("results: {}", setting.path().display());
    Ok(())
}

fn elsewhere(url: &str, tokens: &std::path::Path, setting: &Setting) -> Result<Subject> {
    let address = address(url)?;
    Ok(Subject {
        name: url.to_owned(),
        address,
        tokens: tokens.to_owned(),
        roles: Vec::new(),
        confinement: None,
        engine: setting.results.configuration.engine,
        generator_cores: setting.cores.off_box.len(),
        caveats: vec![
            "The server was not started by this run: its CPU is not accounted for.".into(),
        ],
    })
}

fn address(url: &str) -> Result<SocketAddr> {
    let wanted = || Error::new(format!("--base-url is {url:?}: want http://HOST:PORT"));
    let host = url.strip_prefix("http://").ok_or_else(wanted)?;
    let host = host.trim_end_matches('/');
    let with_port = match host.contains(':') {
        true => host.to_owned(),
        false => format!("{host}:80"),
    };
    let mut addresses = with_port.to_socket_addrs().map_err(|_| wanted())?;
    addresses.next().ok_or_else(wanted)
}
