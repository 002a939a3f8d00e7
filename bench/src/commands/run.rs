//! One load level.

use testbed::Result;

use super::print;
use super::setting::{Setting, SettingArgs, TimingArgs};
use super::target::TargetArgs;
use crate::engine::{Shape, Target};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    shape: ShapeArgs,
    #[command(flatten)]
    timing: TimingArgs,
    #[command(flatten)]
    setting: SettingArgs,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct ShapeArgs {
    /// Closed loop: so many users
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    users: Option<u32>,
    /// Open loop: so many requests a second
    #[arg(long, value_parser = rate)]
    rate: Option<f64>,
    /// No thinking: 64 connections, one request after another
    #[arg(long, value_enum)]
    hammer: Option<Target>,
}

const HAMMER_CONNECTIONS: u32 = 64;

pub fn rate(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.1..=1e6).contains(&rate) => Ok(rate),
        _ => Err("want requests a second, from 0.1 to 1000000".to_owned()),
    }
}

impl ShapeArgs {
    fn shape(&self) -> Shape {
        match (self.users, self.rate, self.hammer) {
            (Some(users), ..) => Shape::Users { users },
            (_, Some(per_second), _) => Shape::arrivals(per_second),
            (_, _, target) => Shape::Hammer {
                target: target.unwrap_or(Target::Mix),
                connections: HAMMER_CONNECTIONS,
            },
        }
    }
}

pub fn run(args: &Args) -> Result<()> {
    let mut setting = Setting::new("run", &args.setting)?;
    let (_stand, subject) = args.target.start(&mut setting)?;
    let level = setting.measure(&subject, args.shape.shape(), args.timing.timing(), 1)?;
    print::level(level);
    setting.stop_if_told()?;
    setting.finish()
}
