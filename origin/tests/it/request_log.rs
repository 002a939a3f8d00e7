use serde_json::Value;
use testbed::http::request;

use crate::support::{PATIENCE, origin};

#[test]
fn a_line_for_each_request_and_no_secret_in_it() {
    let (origin, _dataset) = origin(&[("LOG_REQUESTS", "1")]);
    let headers = [
        ("authorization", "Bearer hush-token"),
        ("x-edge-key", "hush-key"),
        ("x-forwarded-for", "198.51.100.1, 203.0.113.7"),
    ];
    let url = origin.url("/posts/1?secret=hush-query");
    let answer = request("GET", &url, &headers, "").unwrap();
    let missing = request("DELETE", &origin.url("/nowhere"), &[], "").unwrap();
    assert_eq!((answer.status, missing.status), (200, 404));

    origin.log().wait_for("/nowhere", PATIENCE).unwrap();
    let lines = origin.log().lines();
    let line_of = |path: &str| -> Value {
        let found: Vec<&String> = lines
            .iter()
            .filter(|line| line.contains(&format!("{path:?}")))
            .collect();
        assert_eq!(found.len(), 1, "{found:?}");
        serde_json::from_str(found[0]).unwrap()
    };
    let line = line_of("/posts/1");
    assert_eq!(line["span"]["method"], "GET");
    assert_eq!(line["span"]["client"], "203.0.113.7");
    assert_eq!(line["status"], 200);
    assert_eq!(line["bytes"], answer.body.len());
    assert!(
        (0.0..30_000.0).contains(&line["latency_ms"].as_f64().unwrap()),
        "{line}"
    );
    let line = line_of("/nowhere");
    assert_eq!(
        (&line["status"], &line["span"]["client"]),
        (&404.into(), &"127.0.0.1".into())
    );
    assert!(!origin.log().text().contains("hush"));
}

#[test]
fn nobody_asked_so_there_is_none() {
    let (mut origin, _dataset) = origin(&[]);
    origin.get("/posts/1").unwrap();
    origin.terminate().unwrap();
    assert!(!origin.log().text().contains("/posts/1"));
}
