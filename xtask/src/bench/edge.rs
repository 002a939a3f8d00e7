//! What a feed hit costs at the edge, beside the least a Worker in JavaScript can do.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testbed::cache::Kept;
use testbed::origin::SECRET;
use testbed::process::{self, CpuTime};
use testbed::{Error, Result, ScriptedOrigin, TempDir, WorkerConfig, Workerd, workerd};

use super::machine::{Cores, Ticks};
use super::table::Spread;
use super::wrk::{CONNECTIONS, Counted, Wrk};
use crate::setup;
use crate::step::step;

#[derive(clap::Args)]
pub struct Args {
    /// How long each Worker is measured in each round
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// How often each is measured, in rotation
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
}

/// Of a real feed of twenty posts.
const FEED_BYTES: usize = 5_000;
const TTL: Duration = Duration::from_millis(1_000);

const RATIO_TARGET: f64 = 1.2;
const RENDERS_PER_TTL_TARGET: f64 = 1.1;
const GZIP_BYTES_TARGET: u64 = 250_000;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Edge,
    JavaScript,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Edge => "edge (Rust, wasm)",
            Kind::JavaScript => "JavaScript by hand",
        }
    }
}

struct Sample {
    kind: Kind,
    us: f64,
    counted: Counted,
    renders_per_ttl: f64,
    others_percent: f64,
}

pub fn run(args: &Args) -> Result<()> {
    step("set-up", setup::wrk)?;
    step("set-up of the edge", setup::edge)?;
    let edge = step("build of the edge", || workerd::edge_modules(&[]))?;
    let yardstick = TempDir::new("yardstick")?;
    fs::write(yardstick.join("index.js"), include_str!("yardstick.js"))
        .map_err(|error| Error::new(format!("cannot write the yardstick: {error}")))?;

    let cores = Cores::take()?;
    let wrk = Wrk::new(&[])?;
    let mut samples = Vec::new();
    for round in 0..args.rounds {
        // Each round begins with the other, so that a drift of the machine favours neither.
        let order = match round % 2 {
            0 => [Kind::Edge, Kind::JavaScript],
            _ => [Kind::JavaScript, Kind::Edge],
        };
        for kind in order {
            let sample = measure(kind, &edge, yardstick.path(), &cores, &wrk, args.seconds)?;
            println!(
                "    round {}: {:<19} {:>6.1} µs/request {:>7.0} requests/s, {} failures, others used {:.0}% of the machine",
                round + 1,
                kind.name(),
                sample.us,
                sample.counted.requests_per_s,
                sample.counted.failures,
                sample.others_percent,
            );
            samples.push(sample);
        }
    }
    report(&samples, cold_start(&edge, &cores)?, gzip_bytes(&edge)?);
    match samples.iter().map(|sample| sample.counted.failures).sum() {
        0_u64 => Ok(()),
        failures => Err(Error::new(format!(
            "{failures} requests failed: the figures do not count"
        ))),
    }
}

fn start(kind: Kind, edge: &Kept, yardstick: &Path, origin: &ScriptedOrigin) -> Result<Workerd> {
    let modules = match kind {
        Kind::Edge => &edge.path,
        Kind::JavaScript => yardstick,
    };
    let config = WorkerConfig::new(modules)
        .var("ORIGINS", origin.base_url())
        .var("CACHE", "isolate")
        .var("FEED_TTL_MS", TTL.as_millis())
        .var("JWT_SECRET", SECRET);
    Workerd::start(&config)
}

fn measure(
    kind: Kind,
    edge: &Kept,
    yardstick: &Path,
    cores: &Cores,
    wrk: &Wrk,
    seconds: u32,
) -> Result<Sample> {
    let origin = ScriptedOrigin::start()?;
    origin.pad(FEED_BYTES);
    let worker = start(kind, edge, yardstick, &origin)?;
    process::pin(worker.pid(), &[cores.server])?;
    // Long enough for the compiler to settle.
    wrk.feed(&worker.base_url(), 2)?;

    origin.forget();
    let (ticks, before) = (Ticks::now(), worker.cpu_time());
    let counted = wrk.feed(&worker.base_url(), seconds)?;
    let cpu: CpuTime = worker.cpu_time() - before;
    let renders = origin.hits("/feed") as f64;
    Ok(Sample {
        kind,
        us: cpu.total().as_secs_f64() * 1e6 / counted.requests as f64,
        renders_per_ttl: renders * TTL.as_secs_f64() / counted.duration_s,
        others_percent: ticks.noise_since(cpu + counted.cpu).others_percent,
        counted,
    })
}

/// From the start of the process to the first feed that it serves.
fn cold_start(edge: &Kept, cores: &Cores) -> Result<Duration> {
    let origin = ScriptedOrigin::start()?;
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        let start_time = Instant::now();
        let worker = start(Kind::Edge, edge, Path::new(""), &origin)?;
        process::pin(worker.pid(), &[cores.server])?;
        let feed = worker.get("/feed")?;
        if feed.status != 200 {
            return Err(Error::new(format!("a cold edge answers {}", feed.status)));
        }
        fastest = fastest.min(start_time.elapsed());
    }
    Ok(fastest)
}

fn gzip_bytes(edge: &Kept) -> Result<u64> {
    let output = Command::new("gzip")
        .args(["-9", "--stdout"])
        .arg(edge.path.join("index_bg.wasm"))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Error::new(format!("cannot run gzip: {error}")))?;
    Ok(output.stdout.len() as u64)
}

fn report(samples: &[Sample], cold_start: Duration, gzip_bytes: u64) {
    let of = |kind: Kind, value: fn(&Sample) -> f64| {
        Spread::of(samples.iter().filter(|s| s.kind == kind).map(value))
            .expect("each kind was measured")
    };
    println!(
        "\nfeed hits, {CONNECTIONS} connections, workerd on one core; median (lowest–highest)\n"
    );
    for kind in [Kind::Edge, Kind::JavaScript] {
        let (us, rate) = (of(kind, |s| s.us), of(kind, |s| s.counted.requests_per_s));
        println!(
            "{:<19} {:>6.1} µs CPU ({:.1}–{:.1}) {:>8.0} requests/s ({:.0}–{:.0})",
            kind.name(),
            us.median,
            us.low,
            us.high,
            rate.median,
            rate.low,
            rate.high
        );
    }
    let verdict = |met: bool| if met { "met" } else { "MISSED" };
    let ratio = of(Kind::Edge, |s| s.us).median / of(Kind::JavaScript, |s| s.us).median;
    println!(
        "ratio of CPU time     {ratio:.2} (target {RATIO_TARGET}: {})",
        verdict(ratio <= RATIO_TARGET)
    );
    let renders = of(Kind::Edge, |s| s.renders_per_ttl);
    println!(
        "origin renders a TTL  {:.2} at most {:.2} (target {RENDERS_PER_TTL_TARGET}: {})",
        renders.median,
        renders.high,
        verdict(renders.high <= RENDERS_PER_TTL_TARGET)
    );
    println!(
        "wasm, gzip            {:.1} kB (target {} kB: {})",
        gzip_bytes as f64 / 1e3,
        GZIP_BYTES_TARGET / 1_000,
        verdict(gzip_bytes <= GZIP_BYTES_TARGET)
    );
    println!(
        "cold start to feed    {:.0} ms, best of 5",
        cold_start.as_secs_f64() * 1e3
    );
}
