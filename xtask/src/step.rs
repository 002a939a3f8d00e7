use std::time::Instant;

use testbed::Result;

/// Says what is being done and how long it took.
pub fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("==> {name}");
    let start = Instant::now();
    let result = work();
    let how = if result.is_ok() { "done" } else { "failed" };
    println!("    {how} in {:.1} s", start.elapsed().as_secs_f64());
    result
}
