//! A topology, started on a fresh copy of the data, confined, and stopped with the value.

mod nginx;
pub mod peers;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use testbed::dataset::{Datasets, Scale, Sqlite};
use testbed::postgres::{self, Postgres};
use testbed::process::Prepare;
use testbed::workerd::{self, WorkerConfig, Workerd};
use testbed::{Error, Origin, OriginConfig, Result, Server, TempDir, cache, origin, process};

use nginx::Nginx;

use crate::accounting::{POSTGRES, Role};
use crate::confine::{Confinement, Enclosure, Limits};
use crate::topology::{App, Front, Store, Topology};

/// How long a cache keeps the feed, wherever it is.
const FEED_CACHE_MS: u64 = 1_000;

/// Which cores the servers of the box have, and which everyone else.
#[derive(Debug, Clone)]
pub struct Cores {
    pub on_box: Vec<usize>,
    pub off_box: Vec<usize>,
}

impl Cores {
    /// One core for the box; with a single core at hand everyone shares it.
    pub fn split() -> Result<Cores> {
        let cores = process::allowed_cores()?;
        let (on_box, off_box) = cores.split_at(1.min(cores.len()));
        Ok(Cores {
            on_box: on_box.to_vec(),
            off_box: match off_box {
                [] => on_box.to_vec(),
                rest => rest.to_vec(),
            },
        })
    }

    pub fn are_apart(&self) -> bool {
        self.on_box != self.off_box
    }
}

/// The programs and data that stands are made of.
pub struct Workshop {
    origin: PathBuf,
    datasets: Datasets,
    pub scale: Scale,
}

impl Workshop {
    /// With a built origin, or one built now as it is shipped.
    pub fn open(origin: Option<PathBuf>, scale: Scale) -> Result<Self> {
        let origin = match origin {
            Some(program) if program.is_file() => program,
            Some(program) => {
                return Err(Error::new(format!(
                    "--origin: no program {}",
                    program.display()
                )));
            }
            None => origin::binary("release")?,
        };
        let datasets = Datasets::new(&origin);
        Ok(Workshop {
            origin,
            datasets,
            scale,
        })
    }
}

/// What runs. Fields are dropped in this order: the front first, its group last.
pub struct Stand {
    _front: Option<FrontServer>,
    _app: Server,
    _postgres: Option<Postgres>,
    _sqlite: Option<Sqlite>,
    folder: TempDir,
    enclosure: Option<Enclosure>,
    address: SocketAddr,
    roles: Vec<Role>,
}

enum FrontServer {
    Nginx(Nginx),
    Edge(Workerd),
}

impl FrontServer {
    fn address(&self) -> SocketAddr {
        match self {
            FrontServer::Nginx(nginx) => nginx.address(),
            FrontServer::Edge(workerd) => workerd.address(),
        }
    }
}

impl Stand {
    pub fn start(
        topology: Topology,
        workshop: &Workshop,
        limits: Option<Limits>,
        cores: &Cores,
    ) -> Result<Stand> {
        let enclosure = limits.map(Enclosure::new).transpose()?;
        let in_box = |command: &mut Command| match &enclosure {
            Some(enclosure) => enclosure.confine(command),
            None => Ok(()),
        };
        let mut stand =
            Self::start_prepared(topology, workshop, cores, &in_box).map_err(|error| {
                // A server that was not let in could not say why it did not start.
                (enclosure.as_ref().and_then(Enclosure::refusal)).unwrap_or(error)
            })?;
        stand.enclosure = enclosure;
        Ok(stand)
    }

    fn start_prepared(
        topology: Topology,
        workshop: &Workshop,
        cores: &Cores,
        in_box: Prepare,
    ) -> Result<Stand> {
        let folder = TempDir::new("stand")?;
        let tokens = workshop.datasets.tokens(workshop.scale)?;
        let tokens = serde_json::to_string(&tokens)
            .map_err(|error| Error::new(format!("cannot write tokens: {error}")))?;
        let file = folder.join(TOKENS);
        fs::write(&file, tokens)
            .map_err(|error| Error::new(format!("cannot write {}: {error}", file.display())))?;

        let mut roles = Vec::new();
        let mut add = |name: &'static str, root: u32, is_on_box: bool| {
            let cores = match is_on_box {
                true => &cores.on_box,
                false => &cores.off_box,
            };
            for pid in process::tree(root) {
                process::pin(pid, cores)?;
            }
            roles.push(Role {
                name,
                root,
                is_on_box,
            });
            Result::Ok(())
        };
        let mut sqlite = None;
        let mut postgres = None;
        let url = match topology.store {
            Store::Sqlite => {
                let made = sqlite.insert(workshop.datasets.sqlite(workshop.scale)?);
                forget_cached(&made.path());
                made.url()
            }
            Store::Postgres => {
                let kept = match topology.app {
                    App::Origin { .. } => workshop.datasets.kept_postgres(workshop.scale)?,
                    App::Express { .. } | App::Plain => {
                        peers::kept_database(&workshop.datasets, workshop.scale)?
                    }
                };
                let options = postgres::Options::as_deployed().begun_with(&kept);
                let made = Postgres::start_prepared(options, in_box)?;
                let made = postgres.insert(made);
                add(POSTGRES, made.pid().unwrap_or_default(), true)?;
                made.url()
            }
        };
        let cache_ms = |keeps_feed: bool| if keeps_feed { FEED_CACHE_MS } else { 0 };
        let (name, app) = match topology.app {
            App::Origin { keeps_feed } => {
                let mut config = OriginConfig::new(&workshop.origin, &url);
                // With the cache off exactly what runs alone, down to the environment.
                if keeps_feed {
                    config = config.env("FEED_CACHE_MS", FEED_CACHE_MS);
                }
                (
                    "origin",
                    Origin::start_prepared(config, in_box)?.into_server(),
                )
            }
            App::Express { keeps_feed } => (
                "express",
                peers::express(&url, cache_ms(keeps_feed), in_box)?,
            ),
            App::Plain => (
                "plain",
                peers::plain(&cache::build("plain", "release")?, &url, in_box)?,
            ),
        };
        add(name, app.pid(), true)?;
        let front = match topology.front {
            Front::None => None,
            Front::Nginx => {
                let nginx = Nginx::start(app.port(), in_box)?;
                add("nginx", nginx.pid(), true)?;
                Some(FrontServer::Nginx(nginx))
            }
            Front::Edge { keeps_posts } => {
                let edge = edge(cache_ms(keeps_posts), app.port())?;
                add("edge", edge.pid(), false)?;
                Some(FrontServer::Edge(edge))
            }
        };
        let address = (front.as_ref()).map_or_else(|| app.address(), FrontServer::address);
        Ok(Stand {
            _front: front,
            _app: app,
            _postgres: postgres,
            _sqlite: sqlite,
            folder,
            enclosure: None,
            address,
            roles,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn tokens(&self) -> PathBuf {
        self.folder.join(TOKENS)
    }

    pub fn roles(&self) -> Vec<Role> {
        self.roles.clone()
    }

    pub fn confinement(&self) -> Option<Confinement> {
        self.enclosure.as_ref().map(Enclosure::figures)
    }

    pub fn caveats(&self) -> Vec<String> {
        (self.enclosure.as_ref())
            .map(Enclosure::caveats)
            .unwrap_or_default()
    }
}

/// The Worker as it is deployed, but for the cache: the platform's own is not to be had here.
fn edge(post_ttl_ms: u64, origin_port: u16) -> Result<Workerd> {
    let modules = workerd::edge_modules(&[])?;
    let config = WorkerConfig::new(&modules.path)
        .var("CACHE", "isolate")
        .var("FEED_TTL_MS", FEED_CACHE_MS)
        .var("POST_TTL_MS", post_ttl_ms)
        .var("ORIGINS", format!("http://127.0.0.1:{origin_port}"))
        .var("JWT_SECRET", origin::SECRET);
    Workerd::start(&config)
}

const TOKENS: &str = "tokens.json";

/// The pages of a file just copied are in memory on the copier's account. Without them the
/// server reads the file itself, and the memory counts as its own.
fn forget_cached(path: &std::path::Path) {
    let Ok(file) = fs::File::open(path) else {
        return;
    };
    // Best effort: it only makes the first seconds more like those of a fresh machine.
    let _ = file.sync_all();
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
}
