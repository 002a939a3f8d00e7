//! CPU time per request: of the origin with its database, beside a bare axum server.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use testbed::process::CpuTime;
use testbed::{Error, Result};

use super::machine::{Cores, Noise, Ticks, describe};
use super::subject::{Cost, Kind, Programs, Sizes, Subject};
use super::table::{Spread, target};
use super::wrk::{CONNECTIONS, Counted, ENDPOINTS, Wrk};
use crate::setup;
use crate::step::step;

#[derive(clap::Args)]
pub struct Args {
    /// Which stores stand beside the bare server
    #[arg(long, value_enum, default_value = "all")]
    store: Stores,
    /// How long each endpoint is measured in each round
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// How often everything is measured, in rotation
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Only this endpoint (health, post, feed, mix, like, create)
    #[arg(long, value_parser = ENDPOINTS)]
    only: Option<String>,
    /// Write every sample to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Stores {
    Sqlite,
    Postgres,
    All,
    None,
}

/// Long enough to fill caches and open every connection.
const WARM_UP_S: u32 = 1;

/// Above this, other processes disturb the caches and the turns of what is measured.
const NOISY_PERCENT: f64 = 5.0;

struct Sample {
    kind: Kind,
    endpoint: &'static str,
    counted: Counted,
    cost: Cost,
    noise: Noise,
}

impl Sample {
    fn per_request_us(&self, time: CpuTime) -> f64 {
        time.total().as_secs_f64() * 1e6 / self.counted.requests as f64
    }

    fn all(&self) -> CpuTime {
        self.cost.server + self.cost.database
    }

    fn total_us(&self) -> f64 {
        self.per_request_us(self.all())
    }

    fn generator_percent(&self) -> f64 {
        100.0 * self.counted.cpu.total().as_secs_f64() / self.counted.duration_s
    }
}

pub fn run(args: &Args) -> Result<()> {
    let stores: &[Kind] = match args.store {
        Stores::Sqlite => &[Kind::Sqlite],
        Stores::Postgres => &[Kind::Postgres],
        Stores::All => &[Kind::Sqlite, Kind::Postgres],
        Stores::None => &[],
    };
    let needs_postgres = stores.contains(&Kind::Postgres);
    step("set-up", || {
        setup::wrk()?;
        if needs_postgres {
            setup::postgres()
        } else {
            Ok(())
        }
    })?;
    let programs = step("build (release)", || Programs::build(!stores.is_empty()))?;
    step("dataset", || programs.prepare(stores))?;

    let cores = Cores::take()?;
    let tokens = programs.tokens()?;
    let sizes = match stores.first() {
        Some(kind) => {
            let subject = Subject::start(*kind, &programs, &Sizes::default())?;
            Sizes::of(&subject, &tokens[0])?
        }
        None => Sizes::default(),
    };
    let wrk = Wrk::new(&tokens)?;
    let endpoints: Vec<&'static str> = (ENDPOINTS.into_iter())
        .filter(|endpoint| args.only.as_deref().is_none_or(|only| only == *endpoint))
        .collect();
    let kinds: Vec<Kind> = std::iter::once(Kind::Bare)
        .chain(stores.iter().copied())
        .collect();

    let mut samples: Vec<Sample> = Vec::new();
    for round in 1..=args.rounds {
        // Each round begins with another server, so that a slow drift of the machine does
        // not always meet the same one.
        for turn in 0..kinds.len() {
            let kind = kinds[(turn + round as usize - 1) % kinds.len()];
            step(
                &format!("round {round}/{}: {}", args.rounds, kind.name()),
                || {
                    let subject = Subject::start(kind, &programs, &sizes)?;
                    subject.pin(cores.server)?;
                    for endpoint in &endpoints {
                        let sample = measure(&subject, &wrk, endpoint, args.seconds, round)?;
                        print_sample(&sample);
                        samples.push(sample);
                    }
                    Ok(())
                },
            )?;
        }
    }

    print_table(&samples, &kinds, &endpoints, args);
    if let Some(path) = &args.json {
        let text = format!("{:#}\n", report(&samples, args, &cores));
        fs::write(path, text)
            .map_err(|error| Error::new(format!("cannot write {}: {error}", path.display())))?;
    }
    let failures: u64 = samples.iter().map(|sample| sample.counted.failures).sum();
    match failures {
        0 => Ok(()),
        _ => Err(Error::new(format!(
            "{failures} requests failed: the figures do not count"
        ))),
    }
}

fn measure(
    subject: &Subject,
    wrk: &Wrk,
    endpoint: &'static str,
    seconds: u32,
    round: u32,
) -> Result<Sample> {
    wrk.run(subject, endpoint, WARM_UP_S, 1000 + round)?;
    let (ticks, before) = (Ticks::now(), subject.cost());
    let counted = wrk.run(subject, endpoint, seconds, round)?;
    let after = subject.cost();
    let cost = Cost {
        server: after.server - before.server,
        database: after.database - before.database,
    };
    let noise = ticks.noise_since(cost.server + cost.database + counted.cpu);
    Ok(Sample {
        kind: subject.kind,
        endpoint,
        counted,
        cost,
        noise,
    })
}

fn print_sample(sample: &Sample) {
    let failed = match sample.counted.failures {
        0 => String::new(),
        n => format!("  {n} FAILED"),
    };
    println!(
        "    {:<7} {:>7.2} µs/request  {:>8.0} requests/s  generator {:>3.0}%{failed}",
        sample.endpoint,
        sample.total_us(),
        sample.counted.requests_per_s,
        sample.generator_percent(),
    );
}

fn print_table(samples: &[Sample], kinds: &[Kind], endpoints: &[&'static str], args: &Args) {
    println!(
        "\nCPU µs per request: user + system of every process of the server and its database,\n\
         {CONNECTIONS} connections, median of {} rounds of {} s (lowest–highest); what PostgreSQL\n\
         puts off to its next checkpoint is not in it.\n",
        args.rounds, args.seconds
    );
    println!(
        "{:<8} {:<9} {:>22} {:>6} {:>7}       {:>7} {:>8} {:>6} {:>6} {:>9} {:>7} {:>9}",
        "",
        "",
        "µs",
        "ratio",
        "target",
        "server",
        "database",
        "user",
        "system",
        "req/s",
        "p99 ms",
        "generator"
    );
    for endpoint in endpoints {
        let floor = spread(samples, Kind::Bare, endpoint, Sample::total_us);
        for kind in kinds {
            let of = |value: &dyn Fn(&Sample) -> f64| {
                spread(samples, *kind, endpoint, value).map_or(f64::NAN, |spread| spread.median)
            };
            let (Some(floor), Some(total)) =
                (floor, spread(samples, *kind, endpoint, Sample::total_us))
            else {
                continue;
            };
            let ratio = total.median / floor.median;
            let (wanted, verdict) = match target(kind.name(), endpoint) {
                Some(target) if ratio <= target => (format!("≤ {target:.1}"), "PASS"),
                Some(target) => (format!("≤ {target:.1}"), "miss"),
                None => (String::new(), ""),
            };
            let part = |part: fn(&Sample) -> std::time::Duration| {
                of(&|sample| part(sample).as_secs_f64() * 1e6 / sample.counted.requests as f64)
            };
            println!(
                "{:<8} {:<9} {:>8.2} ({:>5.1}–{:>5.1}) {:>6.2} {:>7} {:<4}  {:>7.2} {:>8.2} \
                 {:>6.2} {:>6.2} {:>9.0} {:>7.2} {:>8.0}%",
                endpoint,
                kind.name(),
                total.median,
                total.low,
                total.high,
                ratio,
                wanted,
                verdict,
                part(|sample| sample.cost.server.total()),
                part(|sample| sample.cost.database.total()),
                part(|sample| sample.all().user),
                part(|sample| sample.all().system),
                of(&|sample| sample.counted.requests_per_s),
                of(&|sample| sample.counted.p99_us as f64 / 1000.0),
                of(&Sample::generator_percent),
            );
        }
    }
    let stolen = Spread::of(samples.iter().map(|sample| sample.noise.stolen_percent));
    let others = Spread::of(samples.iter().map(|sample| sample.noise.others_percent));
    if let (Some(stolen), Some(others)) = (stolen, others) {
        println!(
            "\nOf the machine's time, other machines took {:.1}% (at most {:.1}%), other processes \
             and the kernel's own work {:.1}% (at most {:.1}%).",
            stolen.median, stolen.high, others.median, others.high
        );
        if others.high > NOISY_PERCENT {
            println!("That is a noisy run: end what else is running and measure again.");
        }
    }
}

fn spread(
    samples: &[Sample],
    kind: Kind,
    endpoint: &str,
    value: impl Fn(&Sample) -> f64,
) -> Option<Spread> {
    let chosen = samples
        .iter()
        .filter(|sample| sample.kind == kind && sample.endpoint == endpoint);
    Spread::of(chosen.map(value))
}

fn report(samples: &[Sample], args: &Args, cores: &Cores) -> Value {
    let us = |time: std::time::Duration| time.as_micros() as u64;
    let time = |time: CpuTime| json!({"user_us": us(time.user), "system_us": us(time.system)});
    let rows: Vec<Value> = (samples.iter())
        .map(|sample| {
            json!({
                "server": sample.kind.name(),
                "endpoint": sample.endpoint,
                "cpu_us_per_request": sample.total_us(),
                "requests": sample.counted.requests,
                "duration_s": sample.counted.duration_s,
                "p50_us": sample.counted.p50_us,
                "p99_us": sample.counted.p99_us,
                "failures": sample.counted.failures,
                "server_cpu": time(sample.cost.server),
                "database_cpu": time(sample.cost.database),
                "generator_cpu": time(sample.counted.cpu),
                "stolen_percent": sample.noise.stolen_percent,
                "others_percent": sample.noise.others_percent,
            })
        })
        .collect();
    json!({
        "machine": describe(),
        "cores": {"server": cores.server, "generator": cores.generator},
        "connections": CONNECTIONS,
        "rounds": args.rounds,
        "seconds": args.seconds,
        "samples": rows,
    })
}
