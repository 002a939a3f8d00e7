//! The configuration: environment variables, read once at start.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use shared::post_body::MAX_REQUEST_BODY_BYTES;

use crate::http1::Limits;
use crate::store::postgres::replica;
use crate::store::target::Target;

/// Every variable with its meaning, for `origin serve --help`.
pub const HELP: &str = "\
Environment:
  DATABASE_URL           sqlite:PATH or postgres://USER@HOST/NAME
  SQLITE_PATH            the same as DATABASE_URL=sqlite:PATH; set one of the two
  DATABASE_REPLICA_URL   postgres://USER@HOST/NAME, a streaming replica of DATABASE_URL: reads go
                         there while it keeps up
  DATABASE_REPLICA_LAG_BOUND_MS
                         how far it may be behind [500]
  DATABASE_REPLICA_ALONE_MS
                         how long reads go on from it when the primary is away [600000]
  JWT_SECRET             signs and verifies tokens (required)
  JWT_SECRET_PREVIOUS    verifies tokens too, while secrets are rotated
  REQUIRE_EDGE_KEY       1: answer only requests with EDGE_KEY in X-Edge-Key; /health is open [0]
  EDGE_KEY               what the edge proves itself with
  EDGE_KEY_PREVIOUS      is accepted too, while keys are rotated
  HOST                   address to listen on [127.0.0.1]
  PORT                   port to listen on [3000]
                         (both unused where a service manager passes sockets: LISTEN_FDS)
  WORKERS                threads, each with its own event loop [one per core]
  MAX_CONNECTIONS        open connections; one more is answered 503 [from the file limit]
  FEED_CACHE_MS          how long a worker keeps the feed; 0: not at all [0]
  HEAD_TIMEOUT_MS        time to send a request's head [10000]
  BODY_TIMEOUT_MS        time to send a request's body [30000]
  IDLE_TIMEOUT_MS        time between two requests of a connection [90000]
  DRAIN_MS               on SIGTERM, time in which an idle connection may send one more
                         request before it is closed [0]
  WRITE_TIMEOUT_MS       time without progress of a response [30000]
  METRICS_ADDR           ADDRESS:PORT of the metrics, at /metrics for Prometheus [none]
  LOG_REQUESTS           1: one line per request [0]
  LOG_FORMAT             pretty or json [pretty on a terminal, else json]
  RUST_LOG               which log lines, as of tracing [info]";

pub struct Config {
    pub target: Target,
    pub replica: Option<replica::Settings>,
    pub jwt_secret: Secret,
    pub jwt_secret_previous: Option<Secret>,
    /// Who has none of these is refused. `None`: everyone is welcome.
    pub edge_keys: Option<Vec<Secret>>,
    pub address: SocketAddr,
    pub workers: usize,
    pub max_connections: Option<usize>,
    pub limits: Limits,
    pub feed_cache: Option<Duration>,
    pub drain_time: Duration,
    pub metrics_address: Option<SocketAddr>,
    pub log_requests: bool,
}

/// Bytes that no log line and no error shows.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: String) -> Secret {
        Secret(text)
    }

    pub fn expose(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// What is wrong with the configuration, and what to set instead.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl Config {
    /// `variable` is the environment, or what a test puts in its place.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
        let env = Environment(variable);
        let target = match (env.text("DATABASE_URL"), env.text("SQLITE_PATH")) {
            (Some(_), Some(_)) => {
                return Err(error(
                    "DATABASE_URL and SQLITE_PATH name two stores: set one of them",
                ));
            }
            (Some(url), None) => url
                .parse()
                .map_err(|reason| error(format!("DATABASE_URL: {reason}")))?,
            (None, Some(path)) => Target::Sqlite(PathBuf::from(path)),
            (None, None) => {
                return Err(error(
                    "no database: set DATABASE_URL=sqlite:PATH or postgres://USER@HOST/NAME \
                     (or run `origin dev` for a ready one)",
                ));
            }
        };
        Config::read_with(&env, target, None)
    }

    /// The same with a database and a secret at hand for where the environment names none.
    pub fn read_for_dev(
        variable: impl Fn(&str) -> Option<String>,
        target: Target,
        secret: Secret,
    ) -> Result<Config, ConfigError> {
        Config::read_with(&Environment(variable), target, Some(secret))
    }

    fn read_with<F: Fn(&str) -> Option<String>>(
        env: &Environment<F>,
        target: Target,
        fallback_secret: Option<Secret>,
    ) -> Result<Config, ConfigError> {
        let jwt_secret = env.text("JWT_SECRET").map(Secret).or(fallback_secret).ok_or_else(|| {
            error("JWT_SECRET is not set: it signs the tokens; `openssl rand -hex 32` makes a good one")
        })?;
        let host = env.text("HOST").unwrap_or_else(|| "127.0.0.1".to_owned());
        let host: IpAddr = match host.as_str() {
            "localhost" => [127, 0, 0, 1].into(),
            host => host.parse().map_err(|_| {
                error(format!(
                    "HOST is {host:?}: want an IP address such as 0.0.0.0"
                ))
            })?,
        };
        let one_per_core = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Ok(Config {
            replica: env.replica(&target)?,
            target,
            jwt_secret,
            jwt_secret_previous: env.text("JWT_SECRET_PREVIOUS").map(Secret),
            edge_keys: env.edge_keys()?,
            address: SocketAddr::new(host, env.number("PORT", 0..=65_535)?.unwrap_or(3_000)),
            workers: env
                .number("WORKERS", 1..=1_024)?
                .unwrap_or_else(one_per_core),
            max_connections: env.number("MAX_CONNECTIONS", 1..=10_000_000)?,
            limits: Limits {
                head_bytes: 16_384,
                body_bytes: MAX_REQUEST_BODY_BYTES,
                head_timeout: env.ms("HEAD_TIMEOUT_MS", 10_000)?,
                body_timeout: env.ms("BODY_TIMEOUT_MS", 30_000)?,
                idle_timeout: env.ms("IDLE_TIMEOUT_MS", 90_000)?,
                write_timeout: env.ms("WRITE_TIMEOUT_MS", 30_000)?,
            },
            drain_time: Duration::from_millis(env.number("DRAIN_MS", 0..=3_600_000)?.unwrap_or(0)),
            feed_cache: env
                .number("FEED_CACHE_MS", 0..=60_000)?
                .filter(|&ms| ms > 0)
                .map(Duration::from_millis),
            metrics_address: env.address("METRICS_ADDR")?,
            log_requests: env.switch("LOG_REQUESTS")?,
        })
    }
}

struct Environment<F>(F);

impl<F: Fn(&str) -> Option<String>> Environment<F> {
    /// Empty counts as not set, as in a unit file's `NAME=`.
    fn text(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    fn number<T: TryFrom<u64>>(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        u64::from_str(&text)
            .ok()
            .filter(|number| range.contains(number))
            .and_then(|number| T::try_from(number).ok())
            .map(Some)
            .ok_or_else(|| {
                let (low, high) = (range.start(), range.end());
                error(format!(
                    "{name} is {text:?}: want a whole number from {low} to {high}"
                ))
            })
    }

    fn ms(&self, name: &str, default_ms: u64) -> Result<Duration, ConfigError> {
        let ms = self.number(name, 1..=86_400_000)?.unwrap_or(default_ms);
        Ok(Duration::from_millis(ms))
    }

    fn address(&self, name: &str) -> Result<Option<SocketAddr>, ConfigError> {
        self.text(name)
            .map(|text| {
                text.parse().map_err(|_| {
                    error(format!(
                        "{name} is {text:?}: want an IP address and a port, such as 127.0.0.1:9100"
                    ))
                })
            })
            .transpose()
    }

    fn replica(&self, primary: &Target) -> Result<Option<replica::Settings>, ConfigError> {
        const NAME: &str = "DATABASE_REPLICA_URL";
        let lag_bound_ms = self.number("DATABASE_REPLICA_LAG_BOUND_MS", 100..=60_000)?;
        let alone_ms = self.number("DATABASE_REPLICA_ALONE_MS", 0..=86_400_000)?;
        let Some(url) = self.text(NAME) else {
            return Ok(None);
        };
        let target = url
            .parse()
            .map_err(|reason| error(format!("{NAME}: {reason}")))?;
        match (primary, target) {
            (Target::Postgres(_), Target::Postgres(options)) => Ok(Some(replica::Settings {
                options: *options,
                lag_bound: Duration::from_millis(lag_bound_ms.unwrap_or(500)),
                alone_limit: Duration::from_millis(alone_ms.unwrap_or(600_000)),
            })),
            _ => Err(error(format!(
                "{NAME} is set, but only PostgreSQL has replicas: want DATABASE_URL and {NAME} to \
                 be postgres://USER@HOST/NAME"
            ))),
        }
    }

    fn edge_keys(&self) -> Result<Option<Vec<Secret>>, ConfigError> {
        if !self.switch("REQUIRE_EDGE_KEY")? {
            return Ok(None);
        }
        if self.text("EDGE_KEY").is_none() {
            return Err(error(
                "REQUIRE_EDGE_KEY is set, but EDGE_KEY is not: nobody could get in; \
                 `openssl rand -hex 32` makes a good one",
            ));
        }
        let mut keys = Vec::new();
        for name in ["EDGE_KEY", "EDGE_KEY_PREVIOUS"] {
            let Some(key) = self.text(name) else { continue };
            // A header's value arrives without spaces around it, and as ASCII.
            if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(error(format!(
                    "{name} holds a space or another character that no header carries: \
                     use letters, digits and signs"
                )));
            }
            keys.push(Secret(key));
        }
        Ok(Some(keys))
    }

    fn switch(&self, name: &str) -> Result<bool, ConfigError> {
        match self.text(name).as_deref() {
            None | Some("0" | "false") => Ok(false),
            Some("1" | "true") => Ok(true),
            Some(text) => Err(error(format!("{name} is {text:?}: want 1 or 0"))),
        }
    }
}

fn error(text: impl Into<String>) -> ConfigError {
    ConfigError(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Config, String> {
        Config::read(|name| {
            set.iter()
                .find(|(n, _)| *n == name)
                .map(|(_, value)| (*value).to_owned())
        })
        .map_err(|error| error.to_string())
    }

    #[test]
    fn the_challenge_sets_four_variables() {
        let config = read(&[
            ("SQLITE_PATH", "/data/feed.db"),
            ("JWT_SECRET", "s"),
            ("HOST", "0.0.0.0"),
            ("PORT", "80"),
        ])
        .unwrap();
        assert!(matches!(config.target, Target::Sqlite(path) if path.ends_with("feed.db")));
        assert_eq!(config.address.to_string(), "0.0.0.0:80");
    }

    #[test]
    fn an_idle_connection_is_kept_for_75_seconds_at_least() {
        let config = read(&[("SQLITE_PATH", "x"), ("JWT_SECRET", "s")]).unwrap();
        assert!(config.limits.idle_timeout >= Duration::from_secs(75));
    }

    #[test]
    fn the_edges_keys_count_only_when_they_are_required() {
        let with = |set: &[(&str, &str)]| {
            let good = [("SQLITE_PATH", "x"), ("JWT_SECRET", "s")];
            read(&[&good[..], set].concat()).map(|config| config.edge_keys.map(|keys| keys.len()))
        };
        assert_eq!(with(&[("EDGE_KEY", "k")]), Ok(None));
        let required = ("REQUIRE_EDGE_KEY", "1");
        assert_eq!(with(&[required, ("EDGE_KEY", "k")]), Ok(Some(1)));
        let both = [required, ("EDGE_KEY", "k"), ("EDGE_KEY_PREVIOUS", "j")];
        assert_eq!(with(&both), Ok(Some(2)));
        assert!(with(&[required]).unwrap_err().contains("EDGE_KEY"));
        let padded = with(&[required, ("EDGE_KEY", "hush ")]).unwrap_err();
        assert!(
            padded.contains("EDGE_KEY") && !padded.contains("hush"),
            "{padded}"
        );
    }

    #[test]
    fn every_mistake_is_named_with_what_to_set() {
        let good = [("SQLITE_PATH", "x"), ("JWT_SECRET", "s")];
        for (name, value) in [
            ("DATABASE_URL", "sqlite:y"),
            ("DATABASE_REPLICA_URL", "postgres://me@db/x"),
            ("DATABASE_REPLICA_URL", "mysql://me:hush@db/x"),
            ("DATABASE_REPLICA_LAG_BOUND_MS", "50"),
            ("DATABASE_REPLICA_ALONE_MS", "ever"),
            ("PORT", "65536"),
            ("PORT", "http"),
            ("HOST", "example.org"),
            ("WORKERS", "0"),
            ("IDLE_TIMEOUT_MS", "-1"),
            ("FEED_CACHE_MS", "1s"),
            ("METRICS_ADDR", "9100"),
            ("DRAIN_MS", "soon"),
            ("LOG_REQUESTS", "yes"),
        ] {
            let message = read(&[&good[..], &[(name, value)]].concat()).err().unwrap();
            assert!(message.contains(name), "{message}");
            assert!(!message.contains("hush"), "{message}");
        }
        assert!(read(&good[..1]).err().unwrap().contains("JWT_SECRET"));
        assert!(read(&good[1..]).err().unwrap().contains("DATABASE_URL"));
        let url = [
            ("DATABASE_URL", "mysql://me:hush@db/x"),
            ("JWT_SECRET", "s"),
        ];
        assert!(!read(&url).err().unwrap().contains("hush"));
    }
}
