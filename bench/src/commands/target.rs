//! What is measured: a topology started for it, or a server that runs already.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use testbed::{Error, Result};

use super::setting::Setting;
use crate::level::Subject;
use crate::stand::Stand;
use crate::topology::Topology;

#[derive(clap::Args)]
pub struct TargetArgs {
    /// What to start and measure, see `bench --help`
    #[arg(required_unless_present = "base_url", conflicts_with = "base_url")]
    topology: Option<Topology>,
    /// Measure a server that runs already; its CPU is then not accounted for
    #[arg(long, requires = "tokens")]
    base_url: Option<String>,
    /// The tokens of that server's users, as `origin seed --tokens` writes them
    #[arg(long, value_name = "FILE", requires = "base_url")]
    tokens: Option<PathBuf>,
}

impl TargetArgs {
    /// What was started stops with the first of the two.
    pub fn start(&self, setting: &mut Setting) -> Result<(Option<Stand>, Subject)> {
        match (&self.topology, &self.base_url, &self.tokens) {
            (Some(topology), ..) => {
                let (stand, subject) = setting.stand(*topology)?;
                Ok((Some(stand), subject))
            }
            (_, Some(url), Some(tokens)) => Ok((None, elsewhere(url, tokens, setting)?)),
            _ => Err(Error::new("name a topology, or a --base-url with --tokens")),
        }
    }
}

fn elsewhere(url: &str, tokens: &std::path::Path, setting: &Setting) -> Result<Subject> {
    let address = address(url)?;
    let health = testbed::http::get(&format!("http://{address}/health"));
    match health.map(|answer| answer.status) {
        Ok(200) => {}
        Ok(status) => {
            return Err(Error::new(format!(
                "{url} is not healthy: GET /health answered {status}"
            )));
        }
        Err(error) => return Err(Error::new(format!("{url} is not there: {error}"))),
    }
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
