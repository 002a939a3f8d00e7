//! From measured CPU to boxes and money.

use std::path::PathBuf;

use testbed::{Error, Result};

use crate::engine::model::{MEAN_CYCLE_S, REQUESTS_PER_S_PER_USER};
use crate::results::Results;
use crate::units;

#[derive(clap::Args)]
pub struct Args {
    /// People who come on a day
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000_000_000))]
    dau: u64,
    /// How many of them are there at once, at the busiest time; two figures or one
    #[arg(long, default_value = "5%..10%", value_parser = online)]
    online: Online,
    /// Measured CPU by request on the box, in µs
    #[arg(long, required_unless_present = "from")]
    cpu_us: Option<f64>,
    /// Take it from results instead: the busiest level that passed
    #[arg(long, value_name = "FILE", conflicts_with = "cpu_us")]
    from: Option<PathBuf>,
    /// Which topology of those results
    #[arg(long, requires = "from")]
    topology: Option<String>,
    /// How much of a core is used at the busiest time
    #[arg(long, default_value = "70%", value_parser = units::percent)]
    busy: f64,
    /// What a box costs a month
    #[arg(long, default_value_t = 12.0)]
    dollars: f64,
    /// How long the edge keeps the feed, in ms
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=3_600_000))]
    ttl_ms: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Online {
    low: f64,
    high: f64,
}

fn online(text: &str) -> std::result::Result<Online, String> {
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    let (low, high) = (units::percent(low)?, units::percent(high)?);
    match low <= high {
        true => Ok(Online { low, high }),
        false => Err(format!("{text:?}: the lower share comes first")),
    }
}

const DATA_CENTERS: [u32; 5] = [1, 10, 50, 100, 300];

pub fn run(args: &Args) -> Result<()> {
    let cpu_us = match (args.cpu_us, &args.from) {
        (Some(us), _) => us,
        (None, Some(file)) => measured(&Results::read(file)?, args.topology.as_deref())?,
        (None, None) => return Err(Error::new("give --cpu-us or --from")),
    };
    if !(cpu_us.is_finite() && cpu_us > 0.0) {
        return Err(Error::new("the CPU time by request must be above 0 µs"));
    }
    let users_per_box = users_per_box(cpu_us, args.busy);
    println!(
        "users by box  = {:.0}% of 1,000,000 µs ÷ ({cpu_us:.1} µs × {REQUESTS_PER_S_PER_USER:.4} requests/s by user) = {users_per_box:.0}",
        args.busy
    );
    println!(
        "(one core a box, used to {:.0}% at the busiest time; {cpu_us:.1} µs is user and system time of everything on it)",
        args.busy
    );
    let shares = match args.online.low == args.online.high {
        true => vec![args.online.low],
        false => vec![args.online.low, args.online.high],
    };
    for percent in shares {
        let online = args.dau as f64 * percent / 100.0;
        let boxes = (online / users_per_box).ceil().max(1.0);
        let dollars = boxes * args.dollars;
        println!();
        println!(
            "{percent}% of {} online: {online:.0} users, {:.0} requests/s",
            args.dau,
            online * REQUESTS_PER_S_PER_USER
        );
        println!("  boxes = {online:.0} ÷ {users_per_box:.0}, rounded up = {boxes:.0}");
        println!(
            "  cost  = {boxes:.0} × ${} = ${dollars:.2} a month; ${:.4} for each 1,000 daily users",
            args.dollars,
            dollars / args.dau as f64 * 1000.0
        );
        let feeds = online / MEAN_CYCLE_S;
        println!("  feed renders without the edge = {online:.0} ÷ {MEAN_CYCLE_S} s = {feeds:.1}/s");
        for data_centers in DATA_CENTERS {
            println!(
                "  with it in {data_centers:>3} data centre{}: at most {data_centers} × 1 each {} ms = {:.1}/s",
                if data_centers == 1 { " " } else { "s" },
                args.ttl_ms,
                renders(feeds, data_centers, args.ttl_ms),
            );
        }
        println!(
            "  with an upper tier, which asks once for all of them: {:.1}/s",
            renders(feeds, 1, args.ttl_ms)
        );
    }
    Ok(())
}

fn users_per_box(cpu_us: f64, busy_percent: f64) -> f64 {
    1e6 * busy_percent / 100.0 / (cpu_us * REQUESTS_PER_S_PER_USER)
}

/// Each data centre asks at most once a window, and not more often than it is asked.
fn renders(feeds_per_s: f64, data_centers: u32, ttl_ms: u32) -> f64 {
    feeds_per_s.min(f64::from(data_centers) * 1000.0 / f64::from(ttl_ms))
}

fn measured(results: &Results, topology: Option<&str>) -> Result<f64> {
    let levels = (results.levels.iter())
        .filter(|level| results.lasts(level) && level.cpu_us_per_request > 0.0)
        .filter(|level| topology.is_none_or(|name| level.topology == name));
    let busiest = levels.max_by(|a, b| a.requests_per_s.total_cmp(&b.requests_per_s));
    busiest
        .map(|level| level.cpu_us_per_request)
        .ok_or_else(|| {
            Error::new("those results have no level that passed with its CPU accounted for")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_of_100_us_requests_carries_94_000_users() {
        let users = users_per_box(100.0, 100.0);
        assert!((users - 94_470.0).abs() < 1.0, "{users}");
        assert!((users_per_box(100.0, 50.0) - users / 2.0).abs() < 1.0);
    }

    #[test]
    fn the_edge_never_asks_more_than_it_is_asked() {
        assert_eq!(renders(500.0, 1, 1000), 1.0);
        assert_eq!(renders(500.0, 300, 1000), 300.0);
        assert_eq!(renders(20.0, 300, 1000), 20.0);
        assert_eq!(renders(500.0, 10, 500), 20.0);
    }

    #[test]
    fn shares_are_one_or_two() {
        assert_eq!(
            online("5..10"),
            Ok(Online {
                low: 5.0,
                high: 10.0
            })
        );
        assert_eq!(
            online("7%"),
            Ok(Online {
                low: 7.0,
                high: 7.0
            })
        );
        assert!(online("10..5").is_err() && online("").is_err());
    }
}
