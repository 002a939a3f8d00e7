//! `bench open` on a server whose limit is known.

mod common;

use common::{Bench, serve, slow_above};

#[test]
fn the_limit_is_found_to_within_one_step() {
    const LIMIT: f64 = 230.0;
    const STEP: f64 = 25.0;
    let server = serve(slow_above(LIMIT));
    let results = Bench::new().run(
        "open",
        server,
        &[
            "--from",
            "100",
            "--step",
            "25",
            "--warm-up",
            "0s",
            "--ramp",
            "1s",
            "--hold",
            "4s",
            "--confirm",
            "6s",
            "--grace",
            "2s",
        ],
    );
    let score = results.scores.values().next().unwrap();
    assert!(
        score.passed <= LIMIT && score.passed > LIMIT - STEP,
        "{score:?}"
    );
    assert_eq!(score.failed, Some(score.passed + STEP));

    // Every rung is kept: doubling, halving, the ones that failed and the confirmation.
    let rungs: Vec<(f64, bool)> = (results.levels.iter())
        .map(|level| (level.load.shape.level(), level.passed()))
        .collect();
    assert_eq!(rungs[..3], [(100.0, true), (200.0, true), (400.0, false)]);
    assert_eq!(*rungs.last().unwrap(), (score.passed, true));
    assert!(rungs.contains(&(score.passed + STEP, false)), "{rungs:?}");
}
