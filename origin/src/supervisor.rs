//! What a service manager such as systemd hands to the server and is told by it. Without one,
//! nothing here does anything.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::runtime::Handle;
use tracing::warn;

/// The sockets that the manager listens on for us, one for each worker. It keeps them while the
/// server is replaced: clients that come meanwhile wait in them instead of being refused.
///
/// With fewer sockets than workers several workers accept from one. That also works between
/// processes, so a new server can take over while the old one finishes.
pub fn listeners(workers: usize) -> io::Result<Option<(SocketAddr, Vec<TcpListener>)>> {
    let sockets = inherited()?;
    let Some(first) = sockets.first() else {
        return Ok(None);
    };
    if sockets.len() > workers {
        return Err(io::Error::other(format!(
            "{} sockets for {workers} workers: pass at most one for each, or raise WORKERS",
            sockets.len(),
        )));
    }
    let address = first.local_addr()?;
    for socket in &sockets {
        socket.set_nonblocking(true)?;
    }
    let listeners = (0..workers).map(|worker| sockets[worker % sockets.len()].try_clone());
    Ok(Some((address, listeners.collect::<io::Result<_>>()?)))
}

fn inherited() -> io::Result<Vec<TcpListener>> {
    use std::os::fd::{FromRawFd, OwnedFd};
    Ok(sd_notify::listen_fds()?
        // SAFETY: by the protocol these descriptors are open, meant for this very process, and
        // nobody else's here: they are taken once, before the server opens anything.
        .map(|fd| {
            #[allow(unsafe_code)]
            let socket = unsafe { OwnedFd::from_raw_fd(fd) };
            TcpListener::from(socket)
        })
        .collect())
}

pub fn ready() {
    tell(&[NotifyState::Ready, NotifyState::Status("serving")]);
}

pub fn stopping() {
    tell(&[
        NotifyState::Stopping,
        NotifyState::Status("finishing what is in flight"),
    ]);
}

/// Tells the watchdog, for as long as it is polled, that all these event loops still turn. One that
/// does not keeps the word from being said, and the manager restarts the server.
pub async fn keep_watchdog_calm(event_loops: Vec<Handle>) {
    let Some(patience) = sd_notify::watchdog_enabled() else {
        return std::future::pending().await;
    };
    loop {
        for event_loop in &event_loops {
            if event_loop.spawn(async {}).await.is_err() {
                // It has ended: the server is about to, or lost a worker and must be restarted.
                return;
            }
        }
        tell(&[NotifyState::Watchdog]);
        tokio::time::sleep(patience.min(Duration::from_secs(60)) / 3).await;
    }
}

fn tell(state: &[NotifyState]) {
    if let Err(fault) = sd_notify::notify(state) {
        warn!(%fault, "cannot reach the service manager");
    }
}
