//! The edge in front of the real origin: the same contract, the same bytes.

use std::io::Write;

use conformance::{
    BaseUrl, Compare, Connection, Dataset, Entry, Group, Options, Report, Response, Store, corpus,
    shape,
};
use testbed::dataset::{Datasets, Scale, Sqlite};
use testbed::origin::{self, SECRET};
use testbed::{Origin, OriginConfig, ScriptedOrigin, Server, Workerd};

use crate::stage::{edge_config, token};

struct Real {
    origin: Origin,
    edge: Workerd,
    _data: Sqlite,
}

fn real(scale: Scale, cache: &str) -> Real {
    let binary = origin::binary("dev").unwrap();
    let data = Datasets::new(&binary).sqlite(scale).unwrap();
    let config = OriginConfig::new(&binary, &data.url());
    let origin = Origin::start(config).unwrap();
    let edge = edge_config(&origin.base_url()).var("CACHE", cache);
    let edge = Workerd::start(&edge).unwrap();
    Real {
        origin,
        edge,
        _data: data,
    }
}

fn check(edge: &Workerd, dataset: Dataset, cached: bool, skip: &[Group]) -> (Report, String) {
    let options = Options {
        base_url: edge.base_url().parse::<BaseUrl>().unwrap(),
        jwt_secret: SECRET.to_owned(),
        store: Some(Store::Sqlite),
        dataset,
        only: None,
        skip: skip.to_vec(),
        skip_fresh_reads: cached,
        head_timeout: std::time::Duration::from_secs(10),
        body_timeout: std::time::Duration::from_secs(30),
    };
    let mut lines = Vec::new();
    let report = conformance::run(&options, &mut lines);
    (report, String::from_utf8_lossy(&lines).into_owned())
}

#[test]
fn the_contract_holds_through_the_edge_with_its_cache_off() {
    let real = real(Scale::Full, "off");
    let (report, lines) = check(&real.edge, Dataset::Full, false, &[Group::Sockets]);
    std::io::stdout().write_all(lines.as_bytes()).unwrap();
    assert!(report.passed(), "{:#?}", report.failures);
}

#[test]
fn the_contract_holds_through_the_edge_with_its_cache_on() {
    let real = real(Scale::Small, "isolate");
    let (report, lines) = check(&real.edge, Dataset::Small, true, &[Group::Sockets]);
    std::io::stdout().write_all(lines.as_bytes()).unwrap();
    assert!(report.passed(), "{:#?}", report.failures);
}

/// Every request of the corpus goes to the origin and to the edge in front of it. Those that the
/// edge refuses by itself go, a second time, to an edge whose origin only notes what arrives.
#[test]
fn edge_and_origin_answer_every_request_with_the_same_bytes() {
    let real = real(Scale::Small, "off");
    let nobody = ScriptedOrigin::start().unwrap();
    let alone = edge_config(&nobody.base_url()).var("CACHE", "off");
    let alone = Workerd::start(&alone).unwrap();

    let corpus = corpus(SECRET);
    let mut differences = Vec::new();
    for entry in &corpus {
        let direct = ask(&real.origin, entry);
        let through = ask(&real.edge, entry);
        let mut compare = |what: &str, other: &Response| {
            if !same(&direct, other, entry.compare) {
                let show = |r: &Response| format!("{} {:.120}", r.status, r.text());
                let request = format!("{} {:.60}", entry.request.method, entry.request.target);
                differences.push(format!(
                    "{} ({request}): origin {}, {what} {}",
                    entry.name,
                    show(&direct),
                    show(other)
                ));
            }
        };
        compare("edge", &through);
        if entry.edge_refuses {
            compare("edge alone", &ask(&alone, entry));
            if nobody.total() > 0 {
                differences.push(format!("{}: reached the origin", entry.name));
                nobody.forget();
            }
        }
    }
    let differing = differences.len();
    assert!(
        differences.is_empty(),
        "{differing} of {}:\n{}",
        corpus.len(),
        differences.join("\n")
    );
}

/// The origin that is told to serves its edge alone, and its edge everyone.
#[test]
fn only_the_edge_that_has_the_key_is_served() {
    const KEY: &str = "the-key-of-the-edge";
    let binary = origin::binary("dev").unwrap();
    let data = Datasets::new(&binary).sqlite(Scale::Small).unwrap();
    let config = OriginConfig::new(&binary, &data.url())
        .env("REQUIRE_EDGE_KEY", 1)
        .env("EDGE_KEY", KEY);
    let origin = Origin::start(config).unwrap();
    let edge = |key: &str| {
        let config = edge_config(&origin.base_url()).var("EDGE_KEY", key);
        Workerd::start(&config).unwrap()
    };
    let (trusted, stranger) = (edge(KEY), edge("another-key"));
    let token = token(1);

    let statuses = |server: &Server| {
        [
            server.get("/feed").unwrap().status,
            server.get("/posts/1").unwrap().status,
            server
                .post("/posts/1/like", Some(&token), "")
                .unwrap()
                .status
                / 100
                * 100,
        ]
    };
    assert_eq!(statuses(&trusted), [200, 200, 200]);
    assert_eq!(statuses(&origin), [403, 403, 400]);
    assert!(
        statuses(&stranger).iter().all(|status| *status >= 400),
        "{:?}",
        statuses(&stranger)
    );
    assert_eq!(origin.get("/health").unwrap().status, 200);
}

fn ask(server: &Server, entry: &Entry) -> Response {
    let base: BaseUrl = server.base_url().parse().unwrap();
    let mut connection = Connection::open(&base).unwrap();
    connection.send_some(entry.request.bytes(&base));
    connection
        .receive(&entry.request.method)
        .unwrap_or_else(|error| panic!("{}: {error}", entry.name))
}

fn same(one: &Response, other: &Response, compare: Compare) -> bool {
    let bodies = match compare {
        Compare::Bytes => one.body == other.body,
        Compare::Shape => shape(&one.text()) == shape(&other.text()),
    };
    one.status == other.status && one.header("allow") == other.header("allow") && bodies
}
