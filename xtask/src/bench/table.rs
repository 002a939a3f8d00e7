//! From samples to a median, a spread, and a ratio to the floor.

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

impl Spread {
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        };
        Some(Spread { low, median, high })
    }
}

/// The most CPU time per request that a store may cost, as a ratio to the bare server.
pub fn target(store: &str, endpoint: &str) -> Option<f64> {
    match (store, endpoint) {
        ("sqlite", "post") => Some(2.0),
        ("sqlite", "feed") => Some(2.5),
        ("sqlite", "like") => Some(5.0),
        ("sqlite", "create") => Some(3.5),
        ("sqlite", "mix") => Some(2.2),
        ("postgres", "post") => Some(3.5),
        ("postgres", "feed") => Some(3.0),
        ("postgres", "like") => Some(5.0),
        ("postgres", "create") => Some(5.0),
        ("postgres", "mix") => Some(3.5),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_of_the_sorted_samples() {
        let spread = Spread::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!((spread.low, spread.median, spread.high), (1.0, 2.0, 3.0));
        assert_eq!(Spread::of([4.0, 1.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of([]), None);
    }
}
