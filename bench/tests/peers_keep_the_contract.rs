//! The yardsticks answer as the API says, or they would measure something else.

use bench::stand::peers;
use conformance::{Dataset, Group, Store};
use testbed::dataset::{Datasets, Scale};
use testbed::postgres::{Options, Postgres};
use testbed::process::AS_IT_IS;
use testbed::{Server, cache, origin};

fn database(datasets: &Datasets) -> Postgres {
    let kept = peers::kept_database(datasets, Scale::Small).unwrap();
    Postgres::start_with(Options::default().begun_with(&kept)).unwrap()
}

fn keeps_the_contract(start: impl FnOnce(&str) -> testbed::Result<Server>) {
    let datasets = Datasets::new(origin::binary("dev").unwrap());
    let database = database(&datasets);
    let server = start(&database.url()).unwrap();
    let mut lines = Vec::new();
    let options = conformance::Options {
        store: Some(Store::Postgres),
        dataset: Dataset::Small,
        // What a framework makes of malformed bytes is its own.
        skip: vec![Group::Sockets],
        ..conformance::Options::new(server.base_url().parse().unwrap(), origin::SECRET)
    };
    let report = conformance::run(&options, &mut lines);
    let said = String::from_utf8_lossy(&lines);
    assert!(report.passed(), "{said}\n{}", server.log().tail());
}

#[test]
fn express() {
    keeps_the_contract(|url| peers::express(url, 0, AS_IT_IS));
}

#[test]
fn express_with_a_cache_still_shows_ones_own_post_in_a_second() {
    let datasets = Datasets::new(origin::binary("dev").unwrap());
    let database = database(&datasets);
    let server = peers::express(&database.url(), 1_000, AS_IT_IS).unwrap();
    let token = datasets.tokens(Scale::Small).unwrap().remove(0).token;
    let feed = || server.get("/feed").unwrap().body;
    let before = feed();
    let created = server.post("/posts", Some(&token), r#"{"body":"newest of all"}"#);
    assert_eq!(created.unwrap().status, 201);
    // Within its second it is what it was; after that it is not.
    assert_eq!(feed(), before);
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    assert!(feed().contains("newest of all"));
}

#[test]
fn plain() {
    let program = cache::build("plain", "dev").unwrap();
    keeps_the_contract(|url| peers::plain(&program, url, AS_IT_IS));
}
