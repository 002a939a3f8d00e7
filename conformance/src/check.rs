//! The list of checks, and running it.

use crate::challenge;
use crate::corners;
use crate::expect::Verdict;
use crate::http::{BaseUrl, Connection};
use crate::probe::{Probe, Store};
use crate::sockets;
use crate::token::Signer;
use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Group {
    Challenge,
    Corners,
    Sockets,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Challenge => "challenge",
            Self::Corners => "corners",
            Self::Sockets => "sockets",
        })
    }
}

type Run = Box<dyn Fn(&Probe) -> Verdict + Send + Sync>;

pub struct Check {
    pub group: Group,
    pub name: String,
    /// Reads what was just written where a cache may still show what was there before.
    pub needs_fresh_reads: bool,
    /// Waits for a time limit of the server. Such checks only wait and write nothing, so they run beside the others.
    pub waits: bool,
    run: Run,
}

impl Check {
    pub fn new(
        group: Group,
        name: impl Into<String>,
        run: impl Fn(&Probe) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        Self {
            group,
            name: name.into(),
            needs_fresh_reads: false,
            waits: false,
            run: Box::new(run),
        }
    }

    pub fn needs_fresh_reads(mut self) -> Self {
        self.needs_fresh_reads = true;
        self
    }

    pub fn waits(mut self) -> Self {
        self.waits = true;
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Dataset {
    /// 500,000 posts, freshly seeded: the golden bodies hold.
    Full,
    /// Any other: the challenge group is left out.
    Small,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub base_url: BaseUrl,
    pub jwt_secret: String,
    pub store: Option<Store>,
    pub dataset: Dataset,
    /// Only checks whose `group/name` contains this.
    pub only: Option<String>,
    pub skip: Vec<Group>,
    pub skip_fresh_reads: bool,
    /// How long the server may take to give up on a request head, and on a body.
    pub head_timeout: Duration,
    pub body_timeout: Duration,
}

impl Options {
    /// Everything, against a server on the full dataset.
    pub fn new(base_url: BaseUrl, jwt_secret: impl Into<String>) -> Self {
        Self {
            base_url,
            jwt_secret: jwt_secret.into(),
            store: None,
            dataset: Dataset::Full,
            only: None,
            skip: Vec::new(),
            skip_fresh_reads: false,
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
        }
    }

    /// Why this check does not run, if it does not.
    fn reason_to_skip(&self, check: &Check) -> Option<&'static str> {
        if self.skip.contains(&check.group) {
            Some("group skipped")
        } else if self.skip_fresh_reads && check.needs_fresh_reads {
            Some("needs fresh reads")
        } else if check.group == Group::Challenge && self.dataset == Dataset::Small {
            Some("needs the full dataset")
        } else {
            None
        }
    }

    fn selects(&self, check: &Check) -> bool {
        let name = format!("{}/{}", check.group, check.name);
        self.only
            .as_ref()
            .is_none_or(|only| name.contains(only.as_str()))
    }
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub passed: usize,
    pub skipped: usize,
    /// The name of each failed check, and what was wrong.
    pub failures: Vec<(String, String)>,
}

impl Report {
    /// Something ran, and nothing failed.
    pub fn passed(&self) -> bool {
        self.failures.is_empty() && self.passed > 0
    }
}

/// All checks in the order they run; numbers in the output are positions here, so 1 to 42 are the challenge's own.
fn checks(signer: &Signer) -> Vec<Check> {
    let mut checks = challenge::checks();
    checks.extend(corners::checks(signer));
    checks.extend(sockets::checks());
    checks
}

pub fn list(out: &mut dyn Write) -> std::io::Result<()> {
    for (index, check) in checks(&Signer::new("")).iter().enumerate() {
        let fresh = if check.needs_fresh_reads {
            " (needs fresh reads)"
        } else {
            ""
        };
        writeln!(
            out,
            "{:03} {}/{}{fresh}",
            index + 1,
            check.group,
            check.name
        )?;
    }
    Ok(())
}

/// Runs what the options select, one line per check to `out`. Output that cannot be written is not a failure.
pub fn run(options: &Options, out: &mut dyn Write) -> Report {
    let mut report = Report::default();
    if let Err(e) = Connection::open(&options.base_url) {
        let _ = writeln!(out, "FAIL {e}");
        report.failures.push(("connect".into(), e));
        return report;
    }
    let probe = Probe {
        base: options.base_url.clone(),
        signer: Signer::new(&options.jwt_secret),
        store: options.store,
        head_timeout: options.head_timeout,
        body_timeout: options.body_timeout,
    };
    let checks = checks(&probe.signer);
    let selected: Vec<(usize, &Check)> = checks
        .iter()
        .enumerate()
        .filter(|(_, check)| options.selects(check))
        .collect();
    let probe = &probe;
    std::thread::scope(|scope| {
        let mut waiting: HashMap<usize, _> = selected
            .iter()
            .filter(|(_, check)| check.waits && options.reason_to_skip(check).is_none())
            .map(|&(index, check)| (index, scope.spawn(move || (check.run)(probe))))
            .collect();
        for &(index, check) in &selected {
            let label = format!("{:03} {}: {}", index + 1, check.group, check.name);
            if let Some(reason) = options.reason_to_skip(check) {
                report.skipped += 1;
                let _ = writeln!(out, "skip {label} ({reason})");
                continue;
            }
            let verdict = match waiting.remove(&index) {
                Some(thread) => thread
                    .join()
                    .unwrap_or_else(|_| Err("the check panicked".into())),
                None => (check.run)(probe),
            };
            match verdict {
                Ok(()) => {
                    report.passed += 1;
                    let _ = writeln!(out, "ok   {label}");
                }
                Err(why) => {
                    let why = why.replace(['\r', '\n'], " ");
                    let _ = writeln!(out, "FAIL {label}: {why}");
                    report
                        .failures
                        .push((format!("{}/{}", check.group, check.name), why));
                }
            }
        }
    });
    summarise(&report, out);
    report
}

fn summarise(report: &Report, out: &mut dyn Write) {
    let golden = format!("{}/{}", Group::Challenge, challenge::GOLDEN_FEED);
    if report.failures.iter().any(|(name, _)| *name == golden) {
        let _ = writeln!(
            out,
            "note: the challenge group needs a freshly seeded full dataset, and this feed is another one or was written to"
        );
    }
    let (passed, failed, skipped) = (report.passed, report.failures.len(), report.skipped);
    let _ = writeln!(out, "{passed} passed, {failed} failed, {skipped} skipped");
}
