//! The dashboard and the alerts ask for metrics that the origin has.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use testbed::dataset::{Datasets, Scale};
use testbed::{Origin, OriginConfig, free_port, http, origin, postgres, wait_until};

use crate::stage::deploy;

/// Words that look like names of the origin's metrics.
fn names_in(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
    text.split(|c| !is_part(c))
        .filter(|word| {
            ["http_", "process_", "store_", "feed_cache_"]
                .iter()
                .any(|start| word.starts_with(start))
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_dashboard_and_the_alerts_ask_for_what_the_origin_measures() {
    let binary = origin::binary("dev").unwrap();
    let database = Datasets::new(&binary).sqlite(Scale::Small).unwrap();
    let metrics_address = format!("127.0.0.1:{}", free_port());
    let config = OriginConfig::new(&binary, &database.url())
        .env("METRICS_ADDR", &metrics_address)
        .env("FEED_CACHE_MS", 1_000);
    let origin = Origin::start(config).unwrap();
    for path in ["/feed", "/posts/1", "/nope"] {
        origin.get(path).unwrap();
    }
    // A metric with labels is there from its first value on: one write, and one refusal.
    let token = &Datasets::new(&binary).tokens(Scale::Small).unwrap()[0].token;
    origin.post("/posts/1/like", Some(token), "").unwrap();
    let mut broken = TcpStream::connect(origin.address()).unwrap();
    broken.write_all(b"GET\r\n\r\n").unwrap();
    broken.read_to_string(&mut String::new()).unwrap();
    let scrape = |address: &str| {
        names_in(
            &http::get(&format!("http://{address}/metrics"))
                .unwrap()
                .body,
        )
    };
    let mut measured = scrape(&metrics_address);
    assert!(measured.contains("http_requests_total"));

    // A database is no replica of itself, which is told in the same metrics.
    let database = Datasets::new(&binary)
        .postgres(Scale::Small, postgres::Options::default())
        .unwrap();
    let metrics_address = format!("127.0.0.1:{}", free_port());
    let config = OriginConfig::new(&binary, &database.url())
        .env("METRICS_ADDR", &metrics_address)
        .env("DATABASE_REPLICA_URL", database.url());
    let _on_postgres = Origin::start(config).unwrap();
    // The first look at the replica comes a moment later.
    wait_until("the replica to be judged", Duration::from_secs(10), || {
        let names = scrape(&metrics_address);
        let is_judged = names.contains("store_replica_state");
        measured.extend(names);
        Ok(is_judged)
    })
    .unwrap();

    let mut asked = BTreeSet::new();
    let dashboard = fs::read_to_string(deploy("monitoring/dashboard.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            asked.extend(names_in(target["expr"].as_str().unwrap()));
        }
    }
    asked.extend(names_in(
        &fs::read_to_string(deploy("monitoring/alerts.yml")).unwrap(),
    ));
    assert!(asked.len() >= 10, "{asked:?}");
    let unknown: Vec<_> = asked
        .iter()
        // A histogram is named without what it is made of where nothing was observed yet.
        .filter(|name| {
            let whole = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| name.strip_suffix(end));
            !measured.contains(*name) && !whole.is_some_and(|name| measured.contains(name))
        })
        .collect();
    assert!(
        unknown.is_empty(),
        "the origin does not measure {unknown:?}"
    );
}
