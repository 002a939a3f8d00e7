use std::path::PathBuf;
use std::process::Command;

use testbed::dataset::{Datasets, Scale, Sqlite};
use testbed::postgres::{self, Postgres};
use testbed::process::{self, CpuTime};
use testbed::{Error, Origin, OriginConfig, Result, Server, cache, origin};

/// Of the full dataset.
const POSTS: u32 = 500_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Bare,
    Sqlite,
    Postgres,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Bare => "bare",
            Kind::Sqlite => "sqlite",
            Kind::Postgres => "postgres",
        }
    }
}

/// The programs under test, built as they are shipped.
pub struct Programs {
    origin: Option<PathBuf>,
    bare: PathBuf,
}

impl Programs {
    pub fn build(with_origin: bool) -> Result<Self> {
        let origin = match with_origin {
            true => Some(origin::binary("release")?),
            false => None,
        };
        let bare = cache::build("bare", "release")?;
        Ok(Programs { origin, bare })
    }

    fn datasets(&self) -> Result<(&PathBuf, Datasets)> {
        let binary = self.origin.as_ref();
        let binary = binary.ok_or_else(|| Error::new("the origin was not built"))?;
        Ok((binary, Datasets::new(binary)))
    }

    /// Seeds the datasets that are not there yet.
    pub fn prepare(&self, kinds: &[Kind]) -> Result<()> {
        for kind in kinds.iter().filter(|kind| **kind != Kind::Bare) {
            Subject::start(*kind, self, &Sizes::default())?;
        }
        Ok(())
    }

    /// Without an origin, words of the same length: the bare server reads none.
    pub fn tokens(&self) -> Result<Vec<String>> {
        if self.origin.is_none() {
            return Ok(vec!["x".repeat(200); 1000]);
        }
        let tokens = self.datasets()?.1.tokens(Scale::Full)?;
        Ok(tokens.into_iter().map(|token| token.token).collect())
    }
}

/// Bytes of the origin's answers, for the bare server to give as many.
#[derive(Debug, Clone, Default)]
pub struct Sizes(Vec<(&'static str, usize)>);

impl Sizes {
    pub fn of(subject: &Subject, token: &str) -> Result<Self> {
        let get = |path: &str| subject.server.get(path).map(|answer| answer.body.len());
        let post = |path: &str, body: &str| {
            let answer = subject.server.post(path, Some(token), body)?;
            match answer.status {
                201 => Ok(answer.body.len()),
                _ => Err(Error::new(format!("POST {path}: {}", answer.body))),
            }
        };
        // A prime step spreads the sample evenly over the posts.
        let sample: Vec<u32> = (1..POSTS).step_by(2503).collect();
        let mut sum = 0;
        for id in &sample {
            sum += get(&format!("/posts/{id}"))?;
        }
        Ok(Sizes(vec![
            ("--health-bytes", get("/health")?),
            ("--feed-bytes", get("/feed")?),
            ("--post-bytes", sum / sample.len()),
            ("--like-bytes", post("/posts/123456/like", "")?),
            (
                "--create-bytes",
                post(
                    "/posts",
                    r#"{"body":"A note by user 12345 at 1767225600, number 123456"}"#,
                )?,
            ),
        ]))
    }
}

/// A server under test on fresh data.
pub struct Subject {
    pub kind: Kind,
    pub server: Server,
    pub posts: u32,
    pub newest: Vec<String>,
    database: Option<Postgres>,
    _sqlite: Option<Sqlite>,
}

/// CPU time by who used it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    pub server: CpuTime,
    pub database: CpuTime,
}

impl Subject {
    pub fn start(kind: Kind, programs: &Programs, sizes: &Sizes) -> Result<Self> {
        let mut subject = match kind {
            Kind::Bare => Subject {
                kind,
                server: start_bare(programs, sizes)?,
                posts: POSTS,
                newest: (POSTS - 19..=POSTS).map(|id| id.to_string()).collect(),
                database: None,
                _sqlite: None,
            },
            Kind::Sqlite => {
                let (binary, datasets) = programs.datasets()?;
                let sqlite = datasets.sqlite(Scale::Full)?;
                let config = OriginConfig::new(binary, &sqlite.url());
                let server = Origin::start(config)?.into_server();
                Subject::on_full_dataset(kind, server, None, Some(sqlite))
            }
            Kind::Postgres => {
                let (binary, datasets) = programs.datasets()?;
                let database = datasets.postgres(Scale::Full, postgres::Options::as_deployed())?;
                let config = OriginConfig::new(binary, &database.url());
                let server = Origin::start(config)?.into_server();
                Subject::on_full_dataset(kind, server, Some(database), None)
            }
        };
        if subject.has_feed() {
            let feed = subject.server.get("/feed")?;
            let feed: serde_json::Value = serde_json::from_str(&feed.body)
                .map_err(|error| Error::new(format!("GET /feed: {error}")))?;
            let posts = feed["posts"].as_array().into_iter().flatten();
            subject.newest = posts.map(|post| post["id"].to_string()).collect();
        }
        Ok(subject)
    }

    fn on_full_dataset(
        kind: Kind,
        server: Server,
        database: Option<Postgres>,
        sqlite: Option<Sqlite>,
    ) -> Self {
        Subject {
            kind,
            server,
            posts: POSTS,
            newest: Vec::new(),
            database,
            _sqlite: sqlite,
        }
    }

    pub fn has_feed(&self) -> bool {
        self.kind != Kind::Bare
    }

    pub fn cost(&self) -> Cost {
        Cost {
            server: self.server.cpu_time(),
            database: (self.database.as_ref())
                .map(Postgres::cpu_time)
                .unwrap_or_default(),
        }
    }

    /// Confines every process of it to one core.
    pub fn pin(&self, core: usize) -> Result<()> {
        let roots = std::iter::once(self.server.pid());
        for root in roots.chain(self.database.as_ref().and_then(Postgres::pid)) {
            for pid in process::tree(root) {
                process::pin(pid, &[core])?;
            }
        }
        Ok(())
    }
}

fn start_bare(programs: &Programs, sizes: &Sizes) -> Result<Server> {
    Server::start("the bare server", "/health", |port| {
        let mut bare = Command::new(&programs.bare);
        bare.args(["--port", &port.to_string()]);
        for (name, bytes) in &sizes.0 {
            bare.args([*name, &bytes.to_string()]);
        }
        Ok(bare)
    })
}
