use testbed::Origin;
use testbed::http::request;

use crate::support::{origin, serving, small_dataset};

const FORBIDDEN: &str = r#"{"error":"forbidden"}"#;

#[test]
fn only_the_edge_is_answered() {
    let (origin, _dataset) = origin(&[
        ("REQUIRE_EDGE_KEY", "1"),
        ("EDGE_KEY", "new-key"),
        ("EDGE_KEY_PREVIOUS", "old-key"),
    ]);
    let ask = |method: &str, path: &str, headers: &[(&str, &str)]| {
        let answer = request(method, &origin.url(path), headers, "").unwrap();
        (answer.status, answer.body)
    };
    for (method, path) in [
        ("GET", "/feed"),
        ("HEAD", "/feed"),
        ("GET", "/posts/1"),
        ("POST", "/posts"),
        ("POST", "/posts/1/like"),
        ("PUT", "/feed"),
        ("GET", "/nope"),
        ("GET", "/health/"),
    ] {
        let wrong: [&[(&str, &str)]; 4] = [
            &[],
            &[("x-edge-key", "wrong-k")],
            &[("x-edge-key", "new-key"), ("x-edge-key", "new-key")],
            &[("authorization", "Bearer new-key")],
        ];
        for headers in wrong {
            let (status, body) = ask(method, path, headers);
            assert_eq!(status, 403, "{method} {path} {headers:?}");
            assert!(body == FORBIDDEN || method == "HEAD", "{body}");
        }
    }
    assert_eq!(ask("GET", "/health", &[]).0, 200);
    for key in ["new-key", "old-key"] {
        assert_eq!(ask("GET", "/feed", &[("x-edge-key", key)]).0, 200);
        assert_eq!(ask("GET", "/nope", &[("x-edge-key", key)]).0, 404);
    }
    let log = origin.log().text();
    assert!(
        !log.contains("new-key") && !log.contains("old-key"),
        "{log}"
    );
}

#[test]
fn a_key_that_is_not_required_changes_nothing() {
    let (origin, _dataset) = origin(&[("EDGE_KEY", "a-key")]);
    assert_eq!(origin.get("/feed").unwrap().status, 200);
}

#[test]
fn a_key_that_is_required_must_be_there() {
    let dataset = small_dataset();
    let config = serving(&dataset).env("REQUIRE_EDGE_KEY", "1");
    let error = Origin::start(config).unwrap_err().to_string();
    assert!(error.contains("EDGE_KEY is not"), "{error}");
}
