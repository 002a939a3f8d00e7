//! The yardsticks: applications people would write instead, on tables they would make.

use std::path::Path;
use std::process::Command;

use testbed::dataset::{Datasets, Scale};
use testbed::postgres::{self, Stop};
use testbed::process::Prepare;
use testbed::{Error, Result, Server, cache, origin, process};

/// A stopped cluster that holds the dataset in the peers' tables.
pub fn kept_database(datasets: &Datasets, scale: Scale) -> Result<cache::Kept> {
    let schema = cache::workspace().join("bench/peers/schema.sql");
    // Made from the origin's dataset, so it is as old as the older of the two.
    let key = cache::key_of(&[
        schema.clone(),
        cache::workspace().join("origin/src/seed"),
        cache::workspace().join("origin/migrations"),
    ])?;
    let sql = std::fs::read_to_string(&schema)
        .map_err(|error| Error::new(format!("cannot read {}: {error}", schema.display())))?;
    cache::folder(&format!("postgres-peers-{}", scale.name()), key, |target| {
        let quick = [("max_wal_size", "4GB"), ("maintenance_work_mem", "256MB")];
        let mut server = datasets.postgres(
            scale,
            postgres::Options {
                settings: quick.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec(),
                ..postgres::Options::default()
            },
        )?;
        server.query(&sql)?;
        server.query("VACUUM (ANALYZE)")?;
        server.query("CHECKPOINT")?;
        server.stop(Stop::Fast)?;
        cache::copy(&server.data_folder(), &target.join("data"))
    })
}

/// Express 5 and pg, with `node`.
pub fn express(database_url: &str, feed_cache_ms: u64, prepare: Prepare) -> Result<Server> {
    let folder = cache::workspace().join("bench/peers/express");
    // npm leaves there what it installed from.
    let installed = folder.join("node_modules/.package-lock.json");
    let age = |file: &Path| file.metadata().and_then(|file| file.modified()).ok();
    if age(&installed) < age(&folder.join("package-lock.json")) {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
        npm.current_dir(&folder);
        process::run(npm).map_err(|error| {
            Error::new(format!(
                "the Express application needs its packages: {error}"
            ))
        })?;
    }
    Server::start("the Express application", "/health", |port| {
        let mut node = Command::new("node");
        node.arg(folder.join("server.js"))
            .env("PORT", port.to_string())
            .env("DATABASE_URL", database_url)
            .env("JWT_SECRET", origin::SECRET)
            .env("FEED_CACHE_MS", feed_cache_ms.to_string())
            .env("NODE_ENV", "production");
        prepare(&mut node)?;
        Ok(node)
    })
}

/// axum and sqlx; `program` is the package `plain`, built.
pub fn plain(program: &Path, database_url: &str, prepare: Prepare) -> Result<Server> {
    Server::start("the plain axum application", "/health", |port| {
        let mut plain = Command::new(program);
        plain
            .env("PORT", port.to_string())
            .env("DATABASE_URL", database_url)
            .env("JWT_SECRET", origin::SECRET);
        prepare(&mut plain)?;
        Ok(plain)
    })
}
