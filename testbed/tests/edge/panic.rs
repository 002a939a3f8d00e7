//! A panic is a fault of ours that no test foresaw. It must cost the request that met it, and
//! nobody else. The edge under test here is built with a route that panics.

use std::thread::sleep;
use std::time::Duration;

use testbed::scripted_origin::Mood;
use testbed::{ScriptedOrigin, WorkerConfig, Workerd, workerd};

use crate::stage::{Stage, edge_config, number};

fn stage() -> Stage {
    let origin = ScriptedOrigin::start().unwrap();
    let modules = workerd::edge_modules(workerd::PANIC_ROUTE).unwrap();
    let config: WorkerConfig = edge_config(&origin.base_url()).modules(&modules.path);
    let edge = Workerd::start(&config).unwrap();
    Stage { origin, edge }
}

#[test]
fn the_isolate_serves_on_after_a_panic() {
    let stage = stage();
    for round in 1..=5 {
        assert_eq!(stage.edge.get("/panic").unwrap().status, 500);
        for _ in 0..3 {
            assert_eq!(stage.feed().status, 200, "round {round}");
        }
    }
}

#[test]
fn requests_in_flight_survive_the_panic_of_another() {
    let stage = stage();
    stage.warm();
    stage.origin.set(Mood::Slow(Duration::from_millis(600)));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| stage.crowd(20, "/posts/1"));
        while stage.origin.hits("/posts/1") < 20 {
            sleep(Duration::from_millis(5));
        }
        for _ in 0..3 {
            assert_eq!(stage.edge.get("/panic").unwrap().status, 500);
        }
        let answers = waiting.join().unwrap();
        let lost = answers.iter().filter(|a| a.status != 200).count();
        assert_eq!(lost, 0, "{lost} of 20 lost");
    });
    assert!(number(&stage.feed(), "version") > 0);
}
