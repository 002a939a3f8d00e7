//! One load on one topology, measured.

use std::net::SocketAddr;
use std::path::PathBuf;

use testbed::Result;

use crate::accounting::{Accounts, GENERATOR, Gauges, Role, Sample, Usage, Used};
use crate::confine::Confinement;
use crate::engine::model::REQUESTS_PER_S_PER_USER;
use crate::engine::{Load, Message, Second, Shape, Summary};
use crate::generator::{Engine, Generator};
use crate::interrupt;
use crate::judge::{self, MARKS};
use crate::progress::Progress;
use crate::results::{Level, Row};

/// What is measured: where it listens and which processes it is made of.
pub struct Subject {
    pub name: String,
    pub address: SocketAddr,
    pub tokens: PathBuf,
    pub roles: Vec<Role>,
    pub confinement: Option<Confinement>,
    pub engine: Engine,
    /// How many cores the generator has.
    pub generator_cores: usize,
    pub caveats: Vec<String>,
}

/// How a load is spread over time.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    pub ramp_up_ms: u64,
    pub hold_ms: u64,
    pub ramp_down_ms: u64,
    pub grace_ms: u64,
}

impl Subject {
    pub fn load(&self, shape: Shape, timing: Timing, seed: u64) -> Load {
        // Only users leave one by one, and only thinking needs a ramp.
        let ramp_down_ms = match shape {
            Shape::Users { .. } => timing.ramp_down_ms,
            Shape::Arrivals { .. } | Shape::Hammer { .. } => 0,
        };
        let ramp_up_ms = match shape {
            Shape::Users { .. } | Shape::Arrivals { .. } => timing.ramp_up_ms,
            Shape::Hammer { .. } => 0,
        };
        Load {
            address: self.address,
            shape,
            ramp_up_ms,
            hold_ms: timing.hold_ms,
            ramp_down_ms,
            grace_ms: timing.grace_ms,
            seed,
            tokens: self.tokens.clone(),
        }
    }

    pub fn measure(&self, load: &Load, round: u32, progress: &mut Progress) -> Result<Level> {
        let mut generator = Generator::start(self.engine, load)?;
        let mut roles = self.roles.clone();
        roles.push(Role {
            name: GENERATOR,
            root: generator.pid(),
            is_on_box: false,
        });
        let mut accounts = Accounts::new(roles, self.confinement.clone());
        let throttled = || self.confinement.as_ref().and_then(Confinement::throttled);
        let throttled_before = throttled();

        let mut trace = Trace::new(load, accounts.sample());
        let mut gauges = Gauges::default();
        let mut is_told = false;
        let mut summary = loop {
            match generator.hear()? {
                Message::Started { .. } => trace.begin(accounts.sample()),
                Message::Second(second) => {
                    let sample = accounts.sample();
                    let now = accounts.gauges();
                    progress.second(load, &second);
                    let is_last_of_hold = trace.add(second, sample, &now, &accounts);
                    if is_last_of_hold || gauges.resident_bytes.is_empty() {
                        gauges = now;
                    }
                }
                Message::Finished(summary) => break *summary,
            }
            if interrupt::is_raised() && !is_told {
                generator.interrupt();
                is_told = true;
            }
        };
        progress.end_of_level();
        // k6 does not say so itself.
        summary.interrupted |= is_told;
        let times_throttled = match (throttled_before, throttled()) {
            (Some(before), Some(after)) => Some(after.saturating_sub(before)),
            _ => None,
        };
        Ok(self.level(
            load,
            round,
            summary,
            trace,
            &accounts,
            gauges,
            times_throttled,
        ))
    }

    #[allow(clippy::too_many_arguments)]
    fn level(
        &self,
        load: &Load,
        round: u32,
        summary: Summary,
        trace: Trace,
        accounts: &Accounts,
        gauges: Gauges,
        times_throttled: Option<u64>,
    ) -> Level {
        let (usage, requests_in_hold) = trace.hold(accounts);
        let cpu_us_per_request = usage.box_roles_us as f64 / requests_in_hold.max(1) as f64;
        let generator_percent = 100.0 * usage.role_us(GENERATOR) as f64
            / (1e6 * usage.seconds.max(1e-9) * self.generator_cores as f64);
        let mut caveats = self.caveats.clone();
        if self.engine == Engine::K6 {
            caveats.push(
                "k6 says percentiles of the whole run alone, and counts latency from when a request \
                 was sent: a delay of its own before that is not in it."
                    .to_owned(),
            );
        }
        caveats.extend(judge::distrust(generator_percent));
        let latest = trace
            .rows
            .iter()
            .map(|row| row.requests.generator_late_us)
            .max();
        if latest.is_some_and(|late_us| late_us > LATE_US) {
            caveats.push(format!(
                "The generator was late by up to {:.0} ms: latencies carry that delay.",
                latest.unwrap_or_default() as f64 / 1000.0
            ));
        }
        let steal_percent = 100.0 * usage.machine_steal_us as f64
            / (1e6 * usage.seconds.max(1e-9) * usage.machine_cores as f64);
        if steal_percent > 1.0 {
            caveats.push(format!(
                "{steal_percent:.1}% of the machine's time was stolen by others."
            ));
        }
        let others =
            usage.role_us(crate::accounting::OTHERS) as f64 / 1e6 / usage.seconds.max(1e-9);
        if others > 0.05 {
            caveats.push(format!(
                "Other processes used {:.0}% of a core meanwhile.",
                others * 100.0
            ));
        }
        if summary.interrupted {
            caveats
                .push("The run was interrupted: what follows is what was measured by then.".into());
        }
        let mut faults = MARKS.faults(&summary.whole);
        if summary.interrupted {
            faults.push("interrupted".into());
        }
        Level {
            topology: self.name.clone(),
            round,
            load: load.clone(),
            faults,
            caveats,
            requests_per_s: requests_in_hold as f64 / usage.seconds.max(1e-9),
            requests_in_hold,
            cpu_us_per_request,
            users_per_core: match cpu_us_per_request {
                0.0 => 0.0,
                us => 1e6 / us / REQUESTS_PER_S_PER_USER,
            },
            generator_percent,
            times_throttled,
            summary,
            on_box: accounts.on_box(&usage),
            usage,
            gauges,
            seconds: trace.rows,
        }
    }
}

/// A generator that is later than this with its own clock is overloaded.
const LATE_US: u64 = 50_000;

/// The samples at both ends of the hold, and the rows in between.
struct Trace {
    hold_begin_s: u32,
    hold_end_s: u32,
    last: Sample,
    begin: (Sample, u64),
    end: (Sample, u64),
    rows: Vec<Row>,
}

impl Trace {
    fn new(load: &Load, sample: Sample) -> Trace {
        Trace {
            hold_begin_s: load.ramp_up().as_secs_f64().ceil() as u32,
            hold_end_s: load.hold_end().as_secs_f64().floor() as u32,
            last: sample.clone(),
            begin: (sample.clone(), 0),
            end: (sample, 0),
            rows: Vec::new(),
        }
    }

    fn begin(&mut self, sample: Sample) {
        self.last = sample.clone();
        self.begin = (sample.clone(), 0);
        self.end = (sample, 0);
    }

    /// Says whether this second was the hold's last.
    fn add(
        &mut self,
        second: Second,
        sample: Sample,
        gauges: &Gauges,
        accounts: &Accounts,
    ) -> bool {
        let at = (sample.clone(), second.requests_so_far);
        let number = second.second;
        if number <= self.hold_begin_s {
            self.begin = at.clone();
        }
        if number <= self.hold_end_s {
            self.end = at;
        }
        let usage = accounts.between(&self.last, &sample);
        self.last = sample;
        let share = |us: f64| us / 1e6 / usage.seconds.max(1e-9);
        let by_role = |us: fn(Used) -> u64| {
            // Finer than the kernel counts.
            let cores = |used: &Used| (share(us(*used) as f64) * 1e4).round() / 1e4;
            (usage.roles.iter())
                .map(|(name, used)| (name.clone(), cores(used)))
                .collect()
        };
        self.rows.push(Row {
            requests: second,
            cores: by_role(Used::total_us),
            system_cores: by_role(|used| used.system_us),
            unaccounted_cores: share(usage.machine_unaccounted_us as f64),
            steal_cores: share(usage.machine_steal_us as f64),
            box_memory_bytes: gauges.box_memory_bytes,
            tcp_sockets: gauges.tcp_sockets,
            disk_flushes: usage.disk_flushes,
        });
        number == self.hold_end_s
    }

    fn hold(&self, accounts: &Accounts) -> (Usage, u64) {
        let usage = accounts.between(&self.begin.0, &self.end.0);
        (usage, self.end.1.saturating_sub(self.begin.1))
    }
}
