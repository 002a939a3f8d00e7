//! One HTML page that needs nothing else: styles, charts and figures are in it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::engine::Shape;
use crate::engine::model::{MEAN_CYCLE_S, REQUESTS_PER_S_PER_USER};
use crate::results::{Level, Results, Row};

/// A page is read, not analysed: that many points fill a chart.
const POINTS_IN_A_CHART: usize = 150;

pub fn page(runs: &[Results]) -> String {
    let data = json!({
        "requests_per_s_per_user": REQUESTS_PER_S_PER_USER,
        "mean_cycle_s": MEAN_CYCLE_S,
        "runs": runs.iter().map(run).collect::<Vec<_>>(),
    });
    // A text may hold anything, also what would end a script element.
    let data = data.to_string().replace('<', "\\u003c");
    let style = [
        include_str!("../report/vendor/uPlot.min.css"),
        include_str!("../report/style.css"),
    ]
    .concat();
    // The data last: what it says must not be taken for a place to fill in.
    include_str!("../report/page.html")
        .replace("/*STYLE*/", &style)
        .replace(
            "/*LIBRARY*/",
            include_str!("../report/vendor/uPlot.iife.min.js"),
        )
        .replace("/*SCRIPT*/", include_str!("../report/script.js"))
        .replace("/*DATA*/", &data)
}

fn run(results: &Results) -> Value {
    let configuration = &results.configuration;
    json!({
        "command": results.command,
        "started_at": results.started_at,
        "machine": results.machine,
        "engine": configuration.engine,
        "dataset": configuration.dataset,
        "limits": configuration.limits,
        "confined_by": configuration.confined_by,
        "cores_on_box": configuration.cores_on_box,
        "cores_off_box": configuration.cores_off_box,
        "marks": configuration.marks,
        "caveats": results.caveats,
        "scores": results.scores,
        "levels": results.levels.iter().map(|each| level(results, each)).collect::<Vec<_>>(),
    })
}

fn level(results: &Results, level: &Level) -> Value {
    let limits = results.configuration.limits;
    let whole = &level.summary.whole;
    let ms = |us: u64| us as f64 / 1000.0;
    let usage = &level.usage;
    let seconds = usage.seconds.max(1e-9);
    let cores = |us: f64| us / 1e6 / seconds;
    let roles = |names: &dyn Fn(&str) -> bool| -> BTreeMap<&str, f64> {
        (usage.roles.iter())
            .filter(|(name, _)| names(name))
            .map(|(name, used)| (name.as_str(), cores(used.total_us() as f64)))
            .collect()
    };
    let unit = match level.load.shape {
        Shape::Users { .. } => "users",
        Shape::Arrivals { .. } => "requests/s",
        Shape::Hammer { .. } => "connections",
    };
    let resident: u64 = (level.gauges.resident_bytes.iter())
        .filter(|(name, _)| *name != crate::accounting::GENERATOR)
        .map(|(_, bytes)| bytes)
        .sum();
    let memory = level.gauges.box_memory_bytes.unwrap_or(resident);
    json!({
        "topology": level.topology,
        "round": level.round,
        "name": level.load.shape.name(),
        "unit": unit,
        "level": level.load.shape.level(),
        "hold_s": level.load.hold_ms as f64 / 1000.0,
        "passed": level.passed(),
        "lasts": results.lasts(level),
        "faults": level.faults,
        "caveats": level.caveats,
        "requests": whole.requests,
        "failed_percent": 100.0 * whole.failure_share(),
        "p50_ms": ms(whole.latency.p50_us),
        "p95_ms": ms(whole.latency.p95_us),
        "p99_ms": ms(whole.latency.p99_us),
        "max_ms": ms(whole.latency.max_us),
        "requests_per_s": level.requests_per_s,
        "cpu_us": level.cpu_us_per_request,
        "users_per_core": level.users_per_core,
        "generator_percent": level.generator_percent,
        "cores": roles(&|_| true),
        "box_roles": roles(&|name| level.on_box.iter().any(|role| role == name)),
        "box_cores": usage.box_cores(),
        "cpu_share_percent": limits.map(|limits| 1e4 * usage.box_cores() / limits.cpu_percent),
        "memory_share_percent": limits.zip(level.gauges.box_memory_bytes)
            .map(|(limits, bytes)| 100.0 * bytes as f64 / limits.memory_bytes as f64),
        "difference_percent": usage.box_difference_percent,
        "unaccounted_cores": cores(usage.machine_unaccounted_us as f64),
        "steal_cores": cores(usage.machine_steal_us as f64),
        "disk_flushes": usage.disk_flushes,
        "memory_mb": (memory > 0).then_some(memory as f64 / 1e6),
        "series": series(&level.seconds),
    })
}

/// By column, and thinned out: counts are averaged, latencies are the worst of their seconds.
fn series(rows: &[Row]) -> Value {
    let each = rows.len().div_ceil(POINTS_IN_A_CHART).max(1);
    let groups: Vec<&[Row]> = rows.chunks(each).collect();
    let mean = |of: &dyn Fn(&Row) -> f64| -> Vec<f64> {
        (groups.iter())
            .map(|group| group.iter().map(of).sum::<f64>() / group.len() as f64)
            .map(|value| (value * 1e4).round() / 1e4)
            .collect()
    };
    let worst_ms = |of: &dyn Fn(&Row) -> u64| -> Vec<f64> {
        (groups.iter())
            .map(|group| group.iter().map(of).max().unwrap_or_default() as f64 / 1000.0)
            .collect()
    };
    let mut names: Vec<&String> = rows.iter().flat_map(|row| row.cores.keys()).collect();
    names.sort();
    names.dedup();
    let cores: BTreeMap<&String, Vec<f64>> = (names.into_iter())
        .map(|name| {
            let share = |row: &Row| row.cores.get(name).copied().unwrap_or_default();
            (name, mean(&share))
        })
        .collect();
    json!({
        "t": groups.iter().map(|group| group.last().map(|row| row.requests.second)).collect::<Vec<_>>(),
        "p50": worst_ms(&|row| row.requests.p50_us),
        "p95": worst_ms(&|row| row.requests.p95_us),
        "p99": worst_ms(&|row| row.requests.p99_us),
        "requests": mean(&|row| row.requests.requests as f64),
        "failures": mean(&|row| row.requests.failures as f64),
        "users": mean(&|row| f64::from(row.requests.users)),
        "cores": cores,
    })
}
