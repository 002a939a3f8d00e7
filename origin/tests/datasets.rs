//! The kept datasets that other tests begin with: complete, and a copy for everyone.

use testbed::dataset::{Datasets, Scale, Sqlite};
use testbed::{Origin, OriginConfig, postgres};

const ORIGIN: &str = env!("CARGO_BIN_EXE_origin");

/// The database goes away with its value: keep both.
fn start_on_a_copy(datasets: &Datasets) -> (Origin, Sqlite) {
    let sqlite = datasets.sqlite(Scale::Small).unwrap();
    let origin = Origin::start(OriginConfig::new(ORIGIN, &sqlite.url())).unwrap();
    (origin, sqlite)
}

#[test]
fn everyone_gets_a_sqlite_copy_to_change() {
    let datasets = Datasets::new(ORIGIN);
    let tokens = datasets.tokens(Scale::Small).unwrap();
    assert_eq!(tokens[0].username, "golden_ember_1");

    let (mine, _my_copy) = start_on_a_copy(&datasets);
    let (yours, _your_copy) = start_on_a_copy(&datasets);
    let before = yours.get("/feed").unwrap();
    let created = mine
        .post("/posts", Some(&tokens[0].token), r#"{"body":"Mine alone"}"#)
        .unwrap();
    assert_eq!(created.status, 201, "{}", created.body);
    assert!(mine.get("/feed").unwrap().body.contains("Mine alone"));
    assert_eq!(yours.get("/feed").unwrap().body, before.body);
}

#[test]
fn a_postgres_of_ones_own_holds_the_dataset() {
    let datasets = Datasets::new(ORIGIN);
    let server = datasets
        .postgres(Scale::Small, postgres::Options::default())
        .unwrap();
    let count = |table: &str| {
        let count = server.query(&format!("SELECT count(*) FROM {table}"));
        count.unwrap().parse::<u32>().unwrap()
    };
    assert_eq!(count("posts"), 5_000);
    assert!(count("likes") > count("posts"));
}

#[test]
fn a_terminated_origin_ends_well_and_a_killed_one_is_gone() {
    let datasets = Datasets::new(ORIGIN);
    let (mut origin, _copy) = start_on_a_copy(&datasets);
    assert!(origin.terminate().unwrap().success());
    let (mut origin, _copy) = start_on_a_copy(&datasets);
    origin.kill();
    assert!(origin.get("/health").is_err());
}

#[test]
fn an_origin_that_cannot_start_says_why() {
    let config = OriginConfig::new(ORIGIN, "sqlite:/nonexistent/feed.sqlite3");
    let error = Origin::start(config).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/feed.sqlite3"), "{error}");
}
