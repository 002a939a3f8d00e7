//! What the edge saves: the same requests directly and through it, and the origin's CPU, with
//! its database, for each.

use testbed::Result;

use super::print;
use super::run::rate;
use super::setting::{Setting, SettingArgs, TimingArgs};
use crate::engine::Shape;
use crate::topology::{Store, Topology};

#[derive(clap::Args)]
pub struct Args {
    /// The database behind the origin
    #[arg(long, value_enum, default_value = "postgres")]
    store: Store,
    /// Requests a second, in the users' mix. Fixed, so that each gets the same requests
    #[arg(long, default_value = "500", value_parser = rate)]
    rate: f64,
    #[command(flatten)]
    timing: TimingArgs,
    #[command(flatten)]
    setting: SettingArgs,
}

pub fn run(args: &Args) -> Result<()> {
    let mut setting = Setting::new("save", &args.setting)?;
    let topologies = ["alone", "edge", "edge-posts"].map(|name| Topology::new(name, args.store));
    for topology in topologies.into_iter().flatten() {
        let (_stand, subject) = setting.stand(topology)?;
        let shape = Shape::arrivals(args.rate);
        let level = setting.measure(&subject, shape, args.timing.timing(), 1)?;
        print::level(level);
        setting.stop_if_told()?;
    }
    let levels = &setting.results.levels;
    let direct_us = levels[0].cpu_us_per_request;
    println!("CPU of the box (origin and database) for each request that users made:");
    for level in levels {
        println!(
            "  {:<20} {:>7.1} µs, {:>5.1}% saved, {:.1}% of a core",
            level.topology,
            level.cpu_us_per_request,
            100.0 * (1.0 - level.cpu_us_per_request / direct_us.max(1e-9)),
            100.0 * level.usage.box_cores(),
        );
    }
    setting.finish()
}
