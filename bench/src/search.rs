//! Finds the highest level that passes: double until one fails, halve the gap, confirm.

use testbed::Result;

/// In users, or in requests a second.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub from: u32,
    pub step: u32,
    /// No level is above this.
    pub most: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Look,
    /// For longer, at what the looks found.
    Confirm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Zero when no level passed.
    pub passed: u32,
    pub failed: Option<u32>,
}

/// `passes` tries a level. A search that it ends with an error has no result.
pub fn search(
    bounds: Bounds,
    mut passes: impl FnMut(u32, Purpose) -> Result<bool>,
) -> Result<Found> {
    let Bounds { from, step, most } = bounds;
    let mut passed = 0;
    let mut failed = None;
    let mut level = from.min(most);
    loop {
        if !passes(level, Purpose::Look)? {
            failed = Some(level);
            break;
        }
        passed = level;
        if level == most {
            break;
        }
        level = level.saturating_mul(2).min(most);
    }
    while let Some(high) = failed
        && high - passed > step
    {
        // On the grid of steps, so that searches can be compared.
        let middle = passed
            + ((high - passed) / 2)
                .next_multiple_of(step)
                .min(high - passed - 1);
        if passes(middle, Purpose::Look)? {
            passed = middle;
        } else {
            failed = Some(middle);
        }
    }
    while passed > 0 && !passes(passed, Purpose::Confirm)? {
        failed = Some(passed);
        passed = passed.saturating_sub(step);
    }
    Ok(Found { passed, failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        from: 2_500,
        step: 250,
        most: 100_000,
    };

    fn search_limit(limit: u32, confirmed: u32) -> (Found, Vec<(u32, Purpose)>) {
        let mut tried = Vec::new();
        let found = search(BOUNDS, |level, purpose| {
            tried.push((level, purpose));
            Ok(match purpose {
                Purpose::Look => level <= limit,
                Purpose::Confirm => level <= confirmed,
            })
        });
        (found.unwrap(), tried)
    }

    #[test]
    fn the_limit_is_found_to_within_a_step() {
        for limit in (0..60_000).step_by(331) {
            let (found, tried) = search_limit(limit, limit);
            assert!(found.passed <= limit, "{limit}: {found:?}");
            let failed = found.failed.unwrap();
            assert!(
                failed > limit && failed - found.passed <= 250,
                "{limit}: {found:?}"
            );
            assert!(tried.len() < 20, "{limit}: {} levels", tried.len());
        }
    }

    #[test]
    fn it_doubles_then_halves_then_confirms() {
        let (found, tried) = search_limit(6_100, 6_100);
        let levels: Vec<u32> = tried.iter().map(|(level, _)| *level).collect();
        assert_eq!(levels[..5], [2_500, 5_000, 10_000, 7_500, 6_250]);
        assert_eq!(tried.last(), Some(&(found.passed, Purpose::Confirm)));
        assert_eq!(found.passed, 6_000);
    }

    #[test]
    fn what_only_passes_briefly_is_stepped_down() {
        let (found, _) = search_limit(6_100, 5_400);
        assert_eq!((found.passed, found.failed), (5_250, Some(5_500)));
        assert_eq!(search_limit(6_100, 0).0.passed, 0);
    }

    #[test]
    fn no_level_is_above_the_most() {
        let (found, tried) = search_limit(u32::MAX, u32::MAX);
        assert_eq!((found.passed, found.failed), (100_000, None));
        assert!(tried.iter().all(|(level, _)| *level <= 100_000));
    }
}
