//! A topology, started on a fresh copy of the data, confined, and stopped with the value.

mod nginx;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use testbed::dataset::{Datasets, Scale, Sqlite};
use testbed::postgres::{self, Postgres};
use testbed::workerd::{self, WorkerConfig, Workerd};
use testbed::{Error, Origin, OriginConfig, Result, Server, TempDir, origin, process};

use crate::accounting::{POSTGRES, Role};
use crate::confine::{Confinement, Enclosure, Limits};
use crate::topology::{Front, Store, Topology};

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
    _origin: Server,
    _postgres: Option<Postgres>,
    _sqlite: Option<Sqlite>,
    folder: TempDir,
    enclosure: Option<Enclosure>,
    address: SocketAddr,
    roles: Vec<Role>,
}

enum FrontServer {
    Nginx(Server),
    Edge(Workerd),
}

impl FrontServer {
    fn server(&self) -> &Server {
        match self {
            FrontServer::Nginx(server) => server,
            FrontServer::Edge(workerd) => workerd,
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
        let folder = TempDir::new("stand")?;
        let tokens = workshop.datasets.tokens(workshop.scale)?;
        let tokens = serde_json::to_string(&tokens)
            .map_err(|error| Error::new(format!("cannot write tokens: {error}")))?;
        let file = folder.join(TOKENS);
        fs::write(&file, tokens)
            .map_err(|error| Error::new(format!("cannot write {}: {error}", file.display())))?;

        let mut roles = Vec::new();
        let mut admit = |name: &'static str, root: u32, is_on_box: bool| {
            if let (true, Some(enclosure)) = (is_on_box, &enclosure) {
                enclosure.admit(root)?;
            }
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
                let made = workshop.datasets.postgres(workshop.scale, as_deployed())?;
                let made = postgres.insert(made);
                admit(POSTGRES, made.pid().unwrap_or_default(), true)?;
                made.url()
            }
        };
        let mut config = OriginConfig::new(&workshop.origin, &url);
        if topology.front == Front::OriginCache {
            config = config.env("FEED_CACHE_MS", FEED_CACHE_MS);
        }
        let origin = Origin::start(config)?.into_server();
        admit("origin", origin.pid(), true)?;
        let front = match topology.front {
            Front::Alone | Front::OriginCache => None,
            Front::Nginx => {
                let nginx = nginx::start(&folder, origin.port())?;
                admit("nginx", nginx.pid(), true)?;
                Some(FrontServer::Nginx(nginx))
            }
            Front::Edge | Front::EdgePosts => {
                let edge = edge(topology.front, origin.port())?;
                admit("edge", edge.pid(), false)?;
                Some(FrontServer::Edge(edge))
            }
        };
        let address = front
            .as_ref()
            .map_or(&origin, FrontServer::server)
            .address();
        Ok(Stand {
            _front: front,
            _origin: origin,
            _postgres: postgres,
            _sqlite: sqlite,
            folder,
            enclosure,
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
fn edge(front: Front, origin_port: u16) -> Result<Workerd> {
    let modules = workerd::edge_modules(&[])?;
    let post_ttl_ms = match front {
        Front::EdgePosts => FEED_CACHE_MS,
        _ => 0,
    };
    let config = WorkerConfig::new(&modules.path)
        .var("CACHE", "isolate")
        .var("FEED_TTL_MS", FEED_CACHE_MS)
        .var("POST_TTL_MS", post_ttl_ms)
        .var("ORIGINS", format!("http://127.0.0.1:{origin_port}"))
        .var("JWT_SECRET", origin::SECRET);
    Workerd::start(&config)
}

const TOKENS: &str = "tokens.json";

/// Durable, and sized for a machine of 2 GB.
fn as_deployed() -> postgres::Options {
    let settings = [("shared_buffers", "512MB"), ("max_wal_size", "1GB")];
    postgres::Options {
        fsync: true,
        settings: settings
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        from: None,
    }
}

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
