use testbed::http::request;

use crate::support::{origin, token_of};

#[test]
fn several_workers_serve_and_see_each_others_writes() {
    let metrics = format!("127.0.0.1:{}", testbed::free_port());
    let (origin, _dataset) = origin(&[("WORKERS", "4"), ("METRICS_ADDR", &metrics)]);
    // A connection each: the kernel hands them to one worker or another.
    let alone = |method: &str, path: &str, token: Option<&str>, body: &str| {
        let bearer = format!("Bearer {}", token.unwrap_or_default());
        let headers = [("connection", "close"), ("authorization", &bearer)];
        let answer = request(method, &origin.url(path), &headers, body).unwrap();
        (answer.status, answer.body)
    };
    for round in 0..8 {
        let body = format!("round {round}");
        let json = serde_json::json!({ "body": body }).to_string();
        let (status, created) = alone("POST", "/posts", Some(&token_of(1)), &json);
        assert_eq!(status, 201);
        let created: serde_json::Value = serde_json::from_str(&created).unwrap();
        let path = format!("/posts/{}", created["post"]["id"]);
        for _ in 0..8 {
            let (status, post) = alone("GET", &path, None, "");
            assert_eq!(status, 200);
            let post: serde_json::Value = serde_json::from_str(&post).unwrap();
            assert_eq!(post["post"]["body"], body);
            assert!(alone("GET", "/feed", None, "").1.contains(&body));
        }
    }

    let held: Vec<_> = (0..64)
        .map(|_| std::net::TcpStream::connect(origin.address()))
        .collect();
    testbed::wait_until(
        "every worker to have connections",
        crate::support::PATIENCE,
        || {
            let page = testbed::http::get(&format!("http://{metrics}/metrics"))?.body;
            let open = page
                .lines()
                .filter(|line| line.starts_with("http_connections_open{"));
            let open: Vec<usize> = open
                .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
                .collect();
            Ok(open.len() == 4 && open.iter().all(|&open| open > 0))
        },
    )
    .unwrap();
    drop(held);
}
