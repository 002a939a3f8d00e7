//! The wire contract, check by check, on the full dataset of each store.

use std::io::{Write, stdout};
use std::time::Duration;

use conformance::{Dataset, Options, Store};
use testbed::dataset::{Datasets, Scale};
use testbed::{Origin, OriginConfig, origin, postgres};

use crate::support::{BINARY, serving};

/// Short, so that the checks which wait for them are over soon.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);
const BODY_TIMEOUT: Duration = Duration::from_secs(3);

#[test]
fn sqlite_keeps_the_contract() {
    let dataset = Datasets::new(BINARY).sqlite(Scale::Full).unwrap();
    keeps_the_contract(serving(&dataset), Store::Sqlite);
}

#[test]
fn postgresql_keeps_the_contract() {
    let server = Datasets::new(BINARY)
        .postgres(Scale::Full, postgres::Options::default())
        .unwrap();
    let config = OriginConfig::new(BINARY, &server.url());
    keeps_the_contract(config, Store::Postgres);
}

#[test]
fn postgresql_with_a_replica_keeps_the_contract() {
    let primary = Datasets::new(BINARY)
        .postgres(Scale::Full, postgres::Options::default())
        .unwrap();
    let replica = primary.start_replica(&[]).unwrap();
    let config =
        OriginConfig::new(BINARY, &primary.url()).env("DATABASE_REPLICA_URL", replica.url());
    keeps_the_contract(config, Store::Postgres);
    // Most of it was asked of the replica.
    let reads = replica.query("SELECT sum(idx_scan) > 100 FROM pg_stat_user_indexes");
    assert_eq!(reads.unwrap(), "t");
}

fn keeps_the_contract(config: OriginConfig, store: Store) {
    let config = config
        .env("HEAD_TIMEOUT_MS", HEAD_TIMEOUT.as_millis())
        .env("BODY_TIMEOUT_MS", BODY_TIMEOUT.as_millis());
    let server = Origin::start(config).unwrap();
    let options = Options {
        store: Some(store),
        dataset: Dataset::Full,
        head_timeout: HEAD_TIMEOUT,
        body_timeout: BODY_TIMEOUT,
        ..Options::new(server.base_url().parse().unwrap(), origin::SECRET)
    };
    let mut lines = Vec::new();
    let report = conformance::run(&options, &mut lines);
    stdout().write_all(&lines).unwrap();
    assert!(report.passed(), "{:#?}", report.failures);
}
