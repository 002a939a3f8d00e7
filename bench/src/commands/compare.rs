//! The same levels on several topologies, in rotation, with the same seed.

use std::time::Duration;

use testbed::Result;

use super::print;
use super::setting::{Setting, SettingArgs, TimingArgs};
use crate::engine::Shape;
use crate::topology::Topology;
use crate::units;

#[derive(clap::Args)]
pub struct Args {
    /// What to compare, see `bench --help`
    #[arg(required = true, num_args = 1..)]
    topologies: Vec<Topology>,
    /// The levels, in users
    #[arg(long, required = true, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    users: Vec<u32>,
    /// How often everything is measured
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Time at the lowest level before anything is scored: a cold server is another server; 0s for none
    #[arg(long, default_value = "30s", value_parser = units::duration)]
    warm_up: Duration,
    /// Leave out the levels after one that failed
    #[arg(long)]
    until_failure: bool,
    #[command(flatten)]
    timing: TimingArgs,
    #[command(flatten)]
    setting: SettingArgs,
}

pub fn run(args: &Args) -> Result<()> {
    let mut setting = Setting::new("compare", &args.setting)?;
    for round in 1..=args.rounds {
        for number in 0..args.topologies.len() {
            // Another one begins each round: whatever drifts, drifts for all.
            let shifted = (number + round as usize - 1) % args.topologies.len();
            let topology = args.topologies[shifted];
            let (_stand, subject) = setting.stand(topology)?;
            if let Some(users) = args.users.iter().copied().min() {
                let shape = Shape::Users { users };
                setting.warm_up(&subject, shape, args.timing.timing(), args.warm_up)?;
            }
            for users in &args.users {
                let shape = Shape::Users { users: *users };
                let level = setting.measure(&subject, shape, args.timing.timing(), round)?;
                print::level(level);
                let passed = level.passed();
                setting.stop_if_told()?;
                if args.until_failure && !passed {
                    break;
                }
            }
        }
    }
    print::comparison(&setting.results.levels);
    setting.finish()
}
