//! The most users a topology holds, or the most requests a second.

use std::time::Duration;

use testbed::Result;

use super::print;
use super::setting::{Setting, SettingArgs, TimingArgs};
use super::target::TargetArgs;
use crate::engine::model::REQUESTS_PER_S_PER_USER;
use crate::engine::{self, Shape};
use crate::level::Timing;
use crate::results::Score;
use crate::search::{Bounds, Purpose, search};
use crate::units;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// Where to begin [default: 2500 users, or 250 requests/s]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    from: Option<u32>,
    /// How closely to look [default: 250 users, or 25 requests/s]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    step: Option<u32>,
    /// Where to stop at the latest [default: 200000 users, or 25000 requests/s]. Never above what the
    /// limit of open files (ulimit -Hn) allows
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    most: Option<u32>,
    /// Users that warm the server up, and are not scored; 0 for none
    #[arg(long, default_value_t = 1000)]
    warm_up_users: u32,
    #[arg(long, default_value = "2m", value_parser = units::duration)]
    warm_up: Duration,
    /// How long the level that was found is held in the end
    #[arg(long, default_value = "5m", value_parser = units::duration)]
    confirm: Duration,
    #[command(flatten)]
    timing: TimingArgs,
    #[command(flatten)]
    setting: SettingArgs,
}

/// Which loop is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loop {
    Closed,
    Open,
}

impl Loop {
    fn command(self) -> &'static str {
        match self {
            Loop::Closed => "search",
            Loop::Open => "open",
        }
    }

    fn shape(self, level: u32) -> Shape {
        match self {
            Loop::Closed => Shape::Users { users: level },
            Loop::Open => Shape::arrivals(level.into()),
        }
    }

    fn bounds(self, args: &Args) -> Bounds {
        let (from, step, most) = match self {
            Loop::Closed => (2_500, 250, 200_000),
            Loop::Open => (250, 25, 25_000),
        };
        // Above that it is this machine's limit of open files that would be found.
        let connections = engine::most_connections();
        let possible = match self {
            Loop::Closed => connections,
            Loop::Open => (f64::from(connections) * REQUESTS_PER_S_PER_USER) as u32,
        };
        Bounds {
            from: args.from.unwrap_or(from),
            step: args.step.unwrap_or(step),
            most: args.most.unwrap_or(most).min(possible).max(1),
        }
    }
}

pub fn run(which: Loop, args: &Args) -> Result<()> {
    let mut setting = Setting::new(which.command(), &args.setting)?;
    let (_stand, subject) = args.target.start(&mut setting)?;
    let timing = args.timing.timing();
    if args.warm_up_users > 0 {
        let shape = match which {
            Loop::Closed => Shape::Users {
                users: args.warm_up_users,
            },
            Loop::Open => Shape::arrivals(f64::from(args.warm_up_users) * REQUESTS_PER_S_PER_USER),
        };
        setting.warm_up(&subject, shape, timing, args.warm_up)?;
    }
    let confirming = Timing {
        hold_ms: (args.confirm.as_millis() as u64).max(timing.hold_ms),
        ..timing
    };
    let mut round = 0;
    let found = search(which.bounds(args), |level, purpose| {
        round += 1;
        let timing = match purpose {
            Purpose::Look => timing,
            Purpose::Confirm => confirming,
        };
        let level = setting.measure(&subject, which.shape(level), timing, round)?;
        print::level(level);
        let passed = level.passed();
        setting.stop_if_told()?;
        Ok(passed)
    })?;
    let unit = match which {
        Loop::Closed => "users",
        Loop::Open => "requests/s",
    };
    match found.failed {
        Some(failed) => println!(
            "{}: {} {unit} passed, {failed} failed",
            subject.name, found.passed
        ),
        None => println!(
            "{}: {} {unit} passed, the most that was to be tried",
            subject.name, found.passed
        ),
    }
    let score = Score {
        unit: unit.to_owned(),
        passed: found.passed.into(),
        failed: found.failed.map(f64::from),
    };
    setting.results.scores.insert(subject.name.clone(), score);
    setting.finish()
}
