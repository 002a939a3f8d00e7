//! A panic is a fault of ours that no test foresaw. It must cost the request that met it, and
//! nobody else. The edge under test here is built with a route that panics.

use std::thread::sleep;
use std::time::Duration;

use testbed::scripted_origin::Mood;
use testbed::{ScriptedOrigin, WorkerConfig, Workerd, workerd};

use crate::stage::{Stage, edge_config};

fn stage() -> Stage {
    let origin = ScriptedOrigin::start().unwrap();
    let modules = workerd::edge_modules(workerd::PANIC_ROUTE).unwrap();
    let config: WorkerConfig = edge_config(&origin.base_url()).modules(&modules.path);
    let edge = Workerd::start(&config).unwrap();
    Stage { origin, edge }
}

const ERROR: &str = r#"{"error":"internal server error"}"#;

#[test]
fn the_request_that_panics_gets_500_and_the_isolate_serves_on() {
    let stage = stage();
    for round in 1..=12 {
        // At once, and after having waited for the origin.
        for path in ["/panic", "/panic/later"] {
            let answer = stage.edge.get(path).unwrap();
            assert_eq!(
                (answer.status, answer.body.as_str()),
                (500, ERROR),
                "{path}"
            );
            assert_eq!(answer.header("cache-control"), Some("no-store"));
        }
        assert_eq!(stage.feed().status, 200, "round {round}");
        assert_eq!(stage.edge.get("/posts/1").unwrap().status, 200);
    }
}

#[test]
fn requests_in_flight_survive_the_panic_of_another() {
    let stage = stage();
    stage.origin.set(Mood::Slow(Duration::from_millis(800)));
    std::thread::scope(|scope| {
        let singles = scope.spawn(|| stage.crowd(20, "/posts/1"));
        let shared = scope.spawn(|| stage.crowd(20, "/feed"));
        while stage.origin.hits("/posts/1") < 20 || stage.origin.hits("/feed") == 0 {
            sleep(Duration::from_millis(5));
        }
        for _ in 0..3 {
            assert_eq!(stage.edge.get("/panic").unwrap().status, 500);
        }
        for answers in [singles.join().unwrap(), shared.join().unwrap()] {
            let lost = answers.iter().filter(|a| a.status != 200).count();
            assert_eq!(lost, 0, "{lost} of 20 lost");
        }
    });
    assert_eq!(stage.origin.hits("/feed"), 1);
}
