//! The pass marks, written before any run.

use serde::{Deserialize, Serialize};

use crate::engine::Window;

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Marks {
    pub p95_ms: u64,
    pub p99_ms: u64,
    pub failure_percent: f64,
}

/// All of them strict: reaching one fails.
pub const MARKS: Marks = Marks {
    p95_ms: 500,
    p99_ms: 1_000,
    failure_percent: 1.0,
};

/// A generator that uses more of its cores than this measures itself.
pub const GENERATOR_PERCENT: f64 = 70.0;

/// Why a run is not to be trusted, whatever it came to.
pub fn distrust(generator_percent: f64) -> Option<String> {
    (generator_percent > GENERATOR_PERCENT).then(|| {
        format!(
            "Not trustworthy: the generator used {generator_percent:.0}% of its cores, and a busy \
             generator measures its own delays."
        )
    })
}

impl Marks {
    /// Why a run failed; nothing when it passed.
    pub fn faults(&self, window: &Window) -> Vec<String> {
        let mut faults = Vec::new();
        let ms = |us: u64| us as f64 / 1000.0;
        let latency = &window.latency;
        for (name, us, limit_ms) in [
            ("p95", latency.p95_us, self.p95_ms),
            ("p99", latency.p99_us, self.p99_ms),
        ] {
            if us >= limit_ms * 1000 {
                faults.push(format!(
                    "{name} {:.0} ms (must stay below {limit_ms})",
                    ms(us)
                ));
            }
        }
        let failed_percent = window.failure_share() * 100.0;
        if failed_percent >= self.failure_percent {
            faults.push(format!(
                "{failed_percent:.2}% failed (must stay below {}%)",
                self.failure_percent
            ));
        }
        if window.requests == 0 {
            faults.push("no request was made".into());
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Latency;

    fn window(p95_us: u64, p99_us: u64, failures: u64) -> Window {
        Window {
            requests: 1000,
            failures,
            latency: Latency {
                p95_us,
                p99_us,
                ..Latency::default()
            },
            ..Window::default()
        }
    }

    #[test]
    fn a_busy_generator_is_not_to_be_trusted() {
        assert_eq!(distrust(70.0), None);
        assert!(distrust(70.1).unwrap().starts_with("Not trustworthy"));
    }

    #[test]
    fn a_run_passes_below_every_mark() {
        assert!(MARKS.faults(&window(499_999, 999_999, 9)).is_empty());
        for (window, fault) in [
            (window(500_000, 999_999, 0), "p95"),
            (window(1, 1_000_000, 0), "p99"),
            (window(1, 2, 10), "failed"),
            (Window::default(), "no request"),
        ] {
            let faults = MARKS.faults(&window);
            assert!(faults.len() == 1 && faults[0].contains(fault), "{faults:?}");
        }
    }
}
