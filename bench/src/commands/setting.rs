//! Options that all measuring commands share, and what they set up.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use testbed::dataset::Scale;
use testbed::{Error, Result};

use crate::confine::Limits;
use crate::engine::Shape;
use crate::generator::Engine;
use crate::interrupt;
use crate::judge::MARKS;
use crate::level::{Subject, Timing};
use crate::machine::{self, Machine};
use crate::progress::Progress;
use crate::results::{Configuration, FORMAT, Level, Results};
use crate::stand::{Cores, Stand, Workshop};
use crate::topology::Topology;
use crate::units;

#[derive(clap::Args, Clone)]
pub struct TimingArgs {
    /// Time over which users (or the rate) rise
    #[arg(long, default_value = "60s", value_parser = units::duration)]
    ramp: Duration,
    /// Time at full load; CPU is accounted over it
    #[arg(long, default_value = "5m", value_parser = units::duration)]
    hold: Duration,
    /// Time over which users leave
    #[arg(long, default_value = "30s", value_parser = units::duration)]
    down: Duration,
    /// Time users then have to finish their turn
    #[arg(long, default_value = "30s", value_parser = units::duration)]
    grace: Duration,
}

impl TimingArgs {
    pub fn timing(&self) -> Timing {
        let ms = |time: Duration| time.as_millis() as u64;
        Timing {
            ramp_up_ms: ms(self.ramp),
            hold_ms: ms(self.hold).max(1000),
            ramp_down_ms: ms(self.down),
            grace_ms: ms(self.grace),
        }
    }
}

#[derive(clap::Args, Clone)]
pub struct SettingArgs {
    /// The load generator
    #[arg(long, value_enum, default_value = "native")]
    engine: Engine,
    /// The servers' share of one core, for example 20% [default: a whole one]
    #[arg(long, value_parser = units::percent)]
    cpu: Option<f64>,
    /// The servers' memory, for example 2G [default: all there is]
    #[arg(long, value_parser = units::bytes)]
    memory: Option<u64>,
    /// The dataset
    #[arg(long, value_enum, default_value = "full")]
    scale: ScaleArg,
    /// A built origin to measure [default: build it now]
    #[arg(long, value_name = "PROGRAM")]
    origin: Option<PathBuf>,
    /// Repeats the same users
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the results go [default: results/COMMAND-TIME.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ScaleArg {
    Small,
    Full,
}

impl SettingArgs {
    pub fn scale(&self) -> Scale {
        match self.scale {
            ScaleArg::Small => Scale::Small,
            ScaleArg::Full => Scale::Full,
        }
    }

    fn limits(&self) -> Option<Limits> {
        (self.cpu.is_some() || self.memory.is_some()).then(|| Limits {
            cpu_percent: self.cpu.unwrap_or(100.0),
            memory_bytes: self.memory.unwrap_or(1 << 40),
        })
    }
}

/// A command's run: where its servers stand and what it has measured so far.
pub struct Setting {
    pub cores: Cores,
    limits: Option<Limits>,
    workshop: Option<Workshop>,
    scale: Scale,
    seed: u64,
    engine: Engine,
    origin: Option<PathBuf>,
    pub progress: Progress,
    pub results: Results,
    path: PathBuf,
}

impl Setting {
    pub fn new(command: &str, args: &SettingArgs) -> Result<Setting> {
        interrupt::watch();
        let cores = Cores::split()?;
        let mut caveats = Vec::new();
        if !cores.are_apart() {
            caveats.push("Servers and generator shared one core.".to_owned());
        }
        let limits = args.limits();
        match limits {
            Some(limits) if limits.cpu_percent < 100.0 => caveats.push(format!(
                "A scale model: the servers had {}% of one core. What the box held is a figure of \
                 this machine; users for each full core follow from CPU time by request.",
                limits.cpu_percent
            )),
            _ => {}
        }
        caveats.push(
            "Generator and servers ran on one machine and spoke over the loopback: no network card, \
             no loss, no distance."
                .to_owned(),
        );
        let started_at = machine::now();
        let stamp: String = (started_at.chars().take(19))
            .map(|c| if c == ':' { '-' } else { c })
            .collect();
        let default = PathBuf::from(format!("results/{command}-{stamp}.json"));
        Ok(Setting {
            results: Results {
                format: FORMAT,
                command: command.to_owned(),
                started_at,
                machine: Machine::describe(),
                configuration: Configuration {
                    engine: args.engine,
                    dataset: args.scale().name().to_owned(),
                    limits,
                    confined_by: None,
                    cores_on_box: cores.on_box.clone(),
                    cores_off_box: cores.off_box.clone(),
                    marks: MARKS,
                },
                caveats,
                levels: Vec::new(),
                scores: BTreeMap::new(),
            },
            cores,
            limits,
            workshop: None,
            scale: args.scale(),
            seed: args.seed,
            engine: args.engine,
            origin: args.origin.clone(),
            progress: Progress::new(),
            path: args.json.clone().unwrap_or(default),
        })
    }

    /// Starts a topology on fresh data.
    pub fn stand(&mut self, topology: Topology) -> Result<(Stand, Subject)> {
        // Built with all cores; only what comes after is kept apart.
        if self.workshop.is_none() {
            self.progress.say("preparing the servers and the dataset …");
            self.workshop = Some(Workshop::open(self.origin.clone(), self.scale)?);
        }
        let workshop = self.workshop.as_ref().expect("opened above");
        self.progress.say(&format!("starting {topology} …"));
        let stand = Stand::start(topology, workshop, self.limits, &self.cores)?;
        machine::keep_to(&self.cores.off_box)?;
        let confinement = stand.confinement();
        if let Some(confinement) = &confinement {
            self.results.configuration.confined_by = Some(confinement.kind().to_owned());
        }
        let subject = Subject {
            name: topology.to_string(),
            address: stand.address(),
            tokens: stand.tokens(),
            roles: stand.roles(),
            confinement,
            engine: self.engine,
            generator_cores: self.cores.off_box.len(),
            caveats: stand.caveats(),
        };
        Ok((stand, subject))
    }

    /// Measures a level and keeps it, also when the rest will not come.
    pub fn measure(
        &mut self,
        subject: &Subject,
        shape: Shape,
        timing: Timing,
        round: u32,
    ) -> Result<&Level> {
        self.stop_if_told()?;
        let load = subject.load(shape, timing, self.seed);
        let title = format!("{}, {}", subject.name, load.shape.name());
        self.progress.level(title);
        let level = subject.measure(&load, round, &mut self.progress)?;
        self.results.levels.push(level);
        self.results.write(&self.path)?;
        Ok(self.results.levels.last().expect("pushed above"))
    }

    /// An error once this program was told to stop.
    pub fn stop_if_told(&self) -> Result<()> {
        match interrupt::is_raised() {
            false => Ok(()),
            true if self.results.levels.is_empty() => Err(Error::new("interrupted")),
            true => Err(Error::new(format!(
                "interrupted: what was measured is in {}",
                self.path.display()
            ))),
        }
    }

    /// The same for so long, not kept.
    pub fn warm_up(
        &mut self,
        subject: &Subject,
        shape: Shape,
        timing: Timing,
        hold: Duration,
    ) -> Result<()> {
        if hold.is_zero() {
            return Ok(());
        }
        let hold_ms = hold.as_millis() as u64;
        let timing = Timing { hold_ms, ..timing };
        let load = subject.load(shape, timing, self.seed);
        let title = format!("{}, warm-up", subject.name);
        self.progress.level(title);
        subject.measure(&load, 0, &mut self.progress).map(drop)
    }

    pub fn finish(&self) -> Result<()> {
        self.results.write(&self.path)?;
        println!("results: {}", self.path.display());
        Ok(())
    }
}
