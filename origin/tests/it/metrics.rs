use std::any::Any;
use std::sync::Barrier;
use std::thread;

use testbed::http::{Answer, request};
use testbed::{Origin, OriginConfig};

use crate::postgres::start_server;
use crate::support::{BINARY, Client, PATIENCE, serving, small_dataset, token_of};

struct Measured {
    origin: Origin,
    page: String,
    _database: Box<dyn Any>,
}

fn measured(variables: &[(&str, &str)]) -> Measured {
    let dataset = small_dataset();
    measured_with(serving(&dataset), dataset, variables)
}

fn measured_on_postgres(variables: &[(&str, &str)]) -> Measured {
    let server = start_server(&[]);
    let config = OriginConfig::new(BINARY, &server.url());
    measured_with(config, server, variables)
}

fn measured_with(config: OriginConfig, database: impl Any, variables: &[(&str, &str)]) -> Measured {
    let address = format!("127.0.0.1:{}", testbed::free_port());
    let config = variables
        .iter()
        .fold(config, |config, (name, value)| config.env(name, value))
        .env("METRICS_ADDR", &address);
    Measured {
        origin: Origin::start(config).unwrap(),
        page: format!("http://{address}/metrics"),
        _database: Box::new(database),
    }
}

impl Measured {
    fn page(&self) -> Answer {
        testbed::http::get(&self.page).unwrap()
    }

    /// The value of a series, by its name with its labels; one that is not there has counted nothing.
    fn value(&self, series: &str) -> f64 {
        let page = self.page().body;
        page.lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
            .map_or(0.0, |value| value.parse().unwrap())
    }
}

#[test]
fn requests_are_counted_by_route_method_and_status() {
    let measured = measured(&[]);
    let ask = |method: &str, path: &str| {
        request(method, &measured.origin.url(path), &[], "").unwrap();
    };
    (0..3).for_each(|_| ask("GET", "/feed?x=1"));
    ask("HEAD", "/feed");
    ask("GET", "/posts/1");
    ask("GET", "/posts/2");
    ask("GET", "/posts/none");
    ask("PUT", "/posts");
    ask("GET", "/wp-login.php");
    let like = |user| {
        let like = measured
            .origin
            .post("/posts/1/like", Some(&token_of(user)), "");
        like.unwrap();
    };
    like(1);
    like(999_999_999);

    for (labels, count) in [
        (r#"{method="GET",route="/feed",status="200"}"#, 3.0),
        (r#"{method="HEAD",route="/feed",status="200"}"#, 1.0),
        (r#"{method="GET",route="/posts/{id}",status="200"}"#, 2.0),
        (r#"{method="GET",route="/posts/{id}",status="400"}"#, 1.0),
        (r#"{method="other",route="none",status="405"}"#, 1.0),
        (r#"{method="GET",route="none",status="404"}"#, 1.0),
        (
            r#"{method="POST",route="/posts/{id}/like",status="401"}"#,
            1.0,
        ),
    ] {
        let series = format!("http_requests_total{labels}");
        assert_eq!(measured.value(&series), count, "{series}");
    }
    let duration = "http_request_duration_seconds";
    assert_eq!(
        measured.value(&format!("{duration}_count{{route=\"/feed\"}}")),
        4.0
    );
    assert!(measured.value(&format!("{duration}_sum{{route=\"/feed\"}}")) > 0.0);
    assert_eq!(measured.value(r#"store_group_size_sum{call="write"}"#), 2.0);
    assert_eq!(measured.value(r#"store_queue_length{call="write"}"#), 0.0);
    let page = measured.page();
    assert!(
        !page.body.contains("wp-login"),
        "a path that anyone can make up is no label"
    );
    assert_eq!(
        page.header("content-type"),
        Some("text/plain; version=0.0.4")
    );
}

#[test]
fn on_postgresql_each_kind_of_call_is_counted() {
    let measured = measured_on_postgres(&[]);
    let (origin, token) = (&measured.origin, token_of(1));
    origin.get("/feed").unwrap();
    (1..=3).for_each(|id| drop(origin.get(&format!("/posts/{id}")).unwrap()));
    let created = origin.post("/posts", Some(&token), r#"{"body":"new"}"#);
    assert_eq!(created.unwrap().status, 201);
    let liked = origin.post("/posts/1/like", Some(&token), "");
    assert_eq!(liked.unwrap().status, 201);
    for (call, calls) in [("feed", 1.0), ("post", 3.0), ("create", 1.0), ("like", 1.0)] {
        for (name, value) in [
            ("store_group_size_sum", calls),
            ("store_queue_length", 0.0),
            ("store_connections_open", 1.0),
            ("store_connections_made_total", 1.0),
            ("store_retries_total", 0.0),
        ] {
            let series = format!("{name}{{call=\"{call}\"}}");
            assert_eq!(measured.value(&series), value, "{series}");
        }
    }
}

#[test]
fn who_misses_the_feed_cache_together_shares_one_query() {
    let measured = measured_on_postgres(&[("FEED_CACHE_MS", "60000")]);
    let all_there = Barrier::new(32);
    thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                let mut client = Client::connect(&measured.origin);
                all_there.wait();
                client.send("GET /feed HTTP/1.1\r\nHost: a\r\n\r\n");
                assert_eq!(client.receive_status(), 200);
            });
        }
    });
    let queried = r#"store_group_size_sum{call="feed"}"#;
    assert_eq!(measured.value(queried), 1.0);
    let by_result = |result: &str| {
        let series = format!("feed_cache_requests_total{{result=\"{result}\"}}");
        measured.value(&series)
    };
    assert_eq!(by_result("miss"), 1.0);
    assert_eq!(by_result("hit") + by_result("shared"), 31.0);
}

#[test]
fn connections_and_those_refused_are_counted() {
    let measured = measured(&[("MAX_CONNECTIONS", "4")]);
    let refused = "http_connections_refused_total";
    let open: Vec<Client> = (0..8).map(|_| Client::connect(&measured.origin)).collect();
    testbed::wait_until("the last to be refused", PATIENCE, || {
        Ok(measured.value(refused) >= 4.0)
    })
    .unwrap();
    assert_eq!(measured.value(r#"http_connections_open{worker="0"}"#), 4.0);
    drop(open);
}

#[test]
fn what_is_no_http_is_counted_too() {
    let measured = measured(&[]);
    let mut garbage = Client::connect(&measured.origin);
    garbage.send("no http\r\n\r\n");
    assert!(garbage.receive_to_the_end().starts_with("http/1.1 400 "));
    let refused = r#"http_requests_refused_total{status="400"}"#;
    assert_eq!(measured.value(refused), 1.0);
}

#[test]
fn the_feed_cache_tells_hits_from_misses() {
    let measured = measured(&[("FEED_CACHE_MS", "60000")]);
    (0..5).for_each(|_| drop(measured.origin.get("/feed").unwrap()));
    assert_eq!(
        measured.value(r#"feed_cache_requests_total{result="miss"}"#),
        1.0
    );
    assert_eq!(
        measured.value(r#"feed_cache_requests_total{result="hit"}"#),
        4.0
    );
}

#[test]
fn the_process_shows_what_it_takes() {
    let measured = measured(&[]);
    let resident = measured.origin.memory().unwrap().resident_bytes as f64;
    let shown = measured.value("process_resident_memory_bytes");
    assert!(
        (resident / 2.0..resident * 2.0).contains(&shown),
        "{shown} of {resident}"
    );
    assert!(measured.value("process_cpu_seconds_total") > 0.0);
    assert!(measured.value("process_open_fds") > 5.0);
    assert!(measured.value("process_threads") >= 3.0);
    assert!(measured.value("process_start_time_seconds") > 1.7e9);
}

#[test]
fn the_api_shows_no_metrics() {
    let measured = measured(&[]);
    assert_eq!(measured.origin.get("/metrics").unwrap().status, 404);
}
