//! A topology, started on a fresh copy of the data, confined, and stopped with the value.

mod nginx;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use testbed::dataset::{Datasets, Scale, Sqlite};
use testbed::postgres::{self, Postgres};
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
            Some(program) => program,
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
    _front: Option<Server>,
    _origin: Server,
    _postgres: Option<Postgres>,
    _sqlite: Option<Sqlite>,
    folder: TempDir,
    enclosure: Option<Enclosure>,
    address: SocketAddr,
    roles: Vec<Role>,
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
        let mut admit = |name: &'static str, root: u32| {
            if let Some(enclosure) = &enclosure {
                enclosure.admit(root)?;
            }
            for pid in process::tree(root) {
                process::pin(pid, &cores.on_box)?;
            }
            roles.push(Role {
                name,
                root,
                is_on_box: true,
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
                admit(POSTGRES, made.pid().unwrap_or_default())?;
                made.url()
            }
        };
        let mut config = OriginConfig::new(&workshop.origin, &url);
        if topology.front == Front::OriginCache {
            config = config.env("FEED_CACHE_MS", FEED_CACHE_MS);
        }
        let origin = Origin::start(config)?.into_server();
        admit("origin", origin.pid())?;
        let front = match topology.front {
            Front::Alone | Front::OriginCache => None,
            Front::Nginx => {
                let nginx = nginx::start(&folder, origin.port())?;
                admit("nginx", nginx.pid())?;
                Some(nginx)
            }
        };
        let address = front.as_ref().unwrap_or(&origin).address();
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
