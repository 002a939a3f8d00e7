//! Log lines: for people on a terminal, JSON for machines elsewhere.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::EnvFilter;

pub fn start() -> Result<(), String> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(text) if !text.is_empty() => {
            EnvFilter::try_new(&text).map_err(|fault| format!("RUST_LOG is {text:?}: {fault}"))?
        }
        _ => EnvFilter::new("info"),
    };
    let pretty = match std::env::var("LOG_FORMAT").as_deref() {
        Ok("pretty") => true,
        Ok("json") => false,
        Ok(text) if !text.is_empty() => {
            return Err(format!("LOG_FORMAT is {text:?}: want pretty or json"));
        }
        _ => stderr().is_terminal(),
    };
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr);
    if pretty {
        lines
            .with_ansi(stderr().is_terminal())
            .with_target(false)
            .init();
    } else {
        // The one span there is, a request's, stands in the line itself.
        lines
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .init();
    }
    Ok(())
}
