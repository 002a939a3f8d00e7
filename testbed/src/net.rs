use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// A TCP port of the loopback that was free a moment ago.
///
/// Another process may take it before it is used, so whoever starts a server on it
/// tries again with another port when the server finds it taken.
pub fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .expect("the loopback has no free port")
        .port()
}

/// Asks every few milliseconds until the answer is yes; an error names what was waited for.
pub fn wait_until(
    what: &str,
    limit: Duration,
    mut is_so: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let start = Instant::now();
    while !is_so()? {
        if start.elapsed() > limit {
            return Err(Error::new(format!(
                "{what}: not within {:.1} s",
                limit.as_secs_f64()
            )));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_when_it_is_so_and_names_what_never_came() {
        let mut asked = 0;
        wait_until("three questions", Duration::from_secs(5), || {
            asked += 1;
            Ok(asked == 3)
        })
        .unwrap();
        let error = wait_until("the impossible", Duration::from_millis(20), || Ok(false));
        assert!(error.unwrap_err().to_string().contains("the impossible"));
    }
}
