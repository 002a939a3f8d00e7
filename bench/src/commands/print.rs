use crate::accounting::Usage;
use crate::results::Level;

/// A level, for a terminal.
pub fn level(level: &Level) {
    let ms = |us: u64| us as f64 / 1000.0;
    let whole = &level.summary.whole;
    let verdict = match level.faults.is_empty() {
        true => "PASS".to_owned(),
        false => format!("FAIL: {}", level.faults.join("; ")),
    };
    println!(
        "{} · {} · {verdict}",
        level.topology,
        level.load.shape.name()
    );
    println!(
        "  whole run: {} requests, {} failed ({:.2}%), p50 {:.2} ms, p95 {:.2} ms, p99 {:.2} ms, max {:.0} ms",
        whole.requests,
        whole.failures,
        100.0 * whole.failure_share(),
        ms(whole.latency.p50_us),
        ms(whole.latency.p95_us),
        ms(whole.latency.p99_us),
        ms(whole.latency.max_us),
    );
    let mix: Vec<String> = (whole.by_request.iter())
        .map(|(kind, requests)| {
            let share = 100.0 * requests.requests as f64 / whole.requests.max(1) as f64;
            format!(
                "{} {share:.1}% (p95 {:.2} ms)",
                kind.name(),
                ms(requests.latency.p95_us)
            )
        })
        .collect();
    println!("  mix: {}", mix.join(", "));
    for (reason, count) in &level.summary.failures_by_reason {
        println!("  failed: {reason}: {count}");
    }
    println!(
        "  hold: {:.0} s, {:.0} requests/s, {:.1} µs CPU by request on the box ({:.1}% of a core), \
         {:.0} users by full core",
        level.usage.seconds,
        level.requests_per_s,
        level.cpu_us_per_request,
        100.0 * level.usage.box_cores(),
        level.users_per_core,
    );
    shares(&level.usage, level.requests_in_hold);
    if let (Some(percent), Some(total_us)) =
        (level.usage.box_difference_percent, level.usage.box_us)
    {
        let ms = (total_us as f64 - level.usage.box_roles_us as f64) / 1000.0;
        println!(
            "  the roles add up to the box's total but for {percent:.2}% ({ms:.0} ms; the kernel counts roles in steps of 10)"
        );
    }
    println!(
        "  kernel time on no process's account: {:.1}% of a core (interrupts by tick: {:.1}%); steal {:.1}%; disk flushes {}",
        level.usage.machine_unaccounted_us as f64 / 1e4 / level.usage.seconds.max(1e-9),
        level.usage.machine_interrupts_us as f64 / 1e4 / level.usage.seconds.max(1e-9),
        level.usage.machine_steal_us as f64 / 1e4 / level.usage.seconds.max(1e-9),
        level.usage.disk_flushes,
    );
    println!("  generator: {:.0}% of its cores", level.generator_percent);
    if let Some(times) = level.times_throttled {
        println!("  held back {times} times, for having used up its share of CPU");
    }
    if let Some(bytes) = level.gauges.box_memory_bytes {
        println!("  memory of the box: {:.0} MB", bytes as f64 / 1e6);
    }
    for (role, bytes) in &level.gauges.resident_bytes {
        println!("  resident, {role}: {:.0} MB", *bytes as f64 / 1e6);
    }
    for caveat in &level.caveats {
        println!("  ! {caveat}");
    }
}

fn shares(usage: &Usage, requests: u64) {
    for (role, used) in &usage.roles {
        println!(
            "    {role:<22} {:>6.1}% of a core  {:>7.1} µs by request  ({:.0}% system)",
            used.total_us() as f64 / 1e4 / usage.seconds.max(1e-9),
            used.total_us() as f64 / requests.max(1) as f64,
            100.0 * used.system_us as f64 / used.total_us().max(1) as f64,
        );
    }
}

/// A line a level, side by side.
pub fn comparison(levels: &[Level]) {
    println!(
        "topology                  level            p50 ms   p95 ms   p99 ms  failed  µs/request  users/core"
    );
    for level in levels {
        let ms = |us: u64| us as f64 / 1000.0;
        let whole = &level.summary.whole;
        println!(
            "{:<25} {:<14} {:>8.2} {:>8.2} {:>8.2} {:>6.2}% {:>11.1} {:>11.0}  {}",
            level.topology,
            level.load.shape.name(),
            ms(whole.latency.p50_us),
            ms(whole.latency.p95_us),
            ms(whole.latency.p99_us),
            100.0 * whole.failure_share(),
            level.cpu_us_per_request,
            level.users_per_core,
            if level.passed() { "PASS" } else { "FAIL" },
        );
    }
}
