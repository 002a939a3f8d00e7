//! The dataset, seeded once by the origin itself and kept; everyone gets a copy to change.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::error::Context;
use crate::postgres::{self, Postgres, Programs, Stop};
use crate::{Result, TempDir, cache, origin, process};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Small,
    Full,
}

impl Scale {
    pub fn name(self) -> &'static str {
        match self {
            Scale::Small => "small",
            Scale::Full => "full",
        }
    }
}

/// One entry of the token file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Token {
    pub id: u64,
    pub username: String,
    pub token: String,
}

/// A SQLite database of one's own, removed with the value.
#[derive(Debug)]
pub struct Sqlite {
    dir: TempDir,
}

impl Sqlite {
    pub fn path(&self) -> PathBuf {
        self.dir.join("data").join(SQLITE_FILE)
    }

    pub fn url(&self) -> String {
        format!("sqlite:{}", self.path().display())
    }
}

/// Makes datasets with one origin program.
#[derive(Debug, Clone)]
pub struct Datasets {
    binary: PathBuf,
}

const SQLITE_FILE: &str = "feed.sqlite3";
const TOKENS_FILE: &str = "tokens.json";

impl Datasets {
    /// `binary` as in [`crate::OriginConfig::new`].
    pub fn new(binary: impl AsRef<Path>) -> Self {
        let binary = binary.as_ref().to_owned();
        Datasets { binary }
    }

    pub fn sqlite(&self, scale: Scale) -> Result<Sqlite> {
        let kept = self.kept_sqlite(scale)?;
        let dir = TempDir::new("sqlite")?;
        cache::copy(&kept.path.join("data"), &dir.join("data"))?;
        Ok(Sqlite { dir })
    }

    /// A server of one's own whose database [`Postgres::url`] holds the dataset.
    pub fn postgres(&self, scale: Scale, options: postgres::Options) -> Result<Postgres> {
        let kept = self.kept_postgres(scale)?;
        Postgres::start_with(options.begun_with(&kept))
    }

    /// The first users' tokens, signed with [`origin::SECRET`].
    pub fn tokens(&self, scale: Scale) -> Result<Vec<Token>> {
        let path = self.kept_sqlite(scale)?.path.join(TOKENS_FILE);
        let reading = || format!("cannot read {}", path.display());
        let text = fs::read_to_string(&path).context(reading)?;
        serde_json::from_str(&text).context(reading)
    }

    fn kept_sqlite(&self, scale: Scale) -> Result<cache::Kept> {
        cache::folder(&format!("sqlite-{}", scale.name()), seed_key()?, |target| {
            let data = target.join("data");
            fs::create_dir(&data).context(|| format!("cannot create {}", data.display()))?;
            let url = format!("sqlite:{}", data.join(SQLITE_FILE).display());
            self.seed(scale, &url, Some(&target.join(TOKENS_FILE)))
        })
    }

    /// A stopped cluster that holds the dataset, for [`postgres::Options::begun_with`].
    pub fn kept_postgres(&self, scale: Scale) -> Result<cache::Kept> {
        let version = Programs::find()?.major_version()?;
        let name = format!("postgres-{version}-{}", scale.name());
        cache::folder(&name, seed_key()?, |target| {
            let quick = [
                ("max_wal_size", "4GB"),
                ("min_wal_size", "32MB"),
                ("maintenance_work_mem", "256MB"),
                ("autovacuum", "off"),
            ];
            let settings = quick.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let mut server = Postgres::start_with(postgres::Options {
                settings: settings.to_vec(),
                ..postgres::Options::default()
            })?;
            self.seed(scale, &server.url(), None)?;
            // What vacuum leaves behind (hint bits, the visibility map) is part of a table in
            // use; without it the first readers pay.
            server.query("VACUUM (ANALYZE)")?;
            // Two in a row let go of the log that seeding wrote.
            server.query("CHECKPOINT")?;
            server.query("SELECT pg_switch_wal()")?;
            server.query("CHECKPOINT")?;
            server.stop(Stop::Fast)?;
            cache::copy(&server.data_folder(), &target.join("data"))
        })
    }

    fn seed(&self, scale: Scale, url: &str, tokens: Option<&Path>) -> Result<()> {
        let mut seed = Command::new(&self.binary);
        seed.args(["seed", "--to", url, "--scale", scale.name()]);
        if let Some(file) = tokens {
            seed.arg("--tokens").arg(file);
        }
        seed.env_clear().env("JWT_SECRET", origin::SECRET);
        process::run(seed).map(drop)
    }
}

/// What decides the rows and their layout: a dataset made from other sources is out of date.
fn seed_key() -> Result<u64> {
    let origin = cache::workspace().join("origin");
    cache::key_of(&[origin.join("src/seed"), origin.join("migrations")])
}
