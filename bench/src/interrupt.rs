//! Ctrl-C and SIGTERM: a run ends early, keeps what it measured and stops what it started.

use std::sync::atomic::{AtomicBool, Ordering};

static RAISED: AtomicBool = AtomicBool::new(false);

/// From now on the first signal only raises a flag; a second one ends the process.
pub fn watch() {
    std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            signal().await;
            RAISED.store(true, Ordering::Relaxed);
            signal().await;
            std::process::exit(130);
        });
    });
}

pub fn is_raised() -> bool {
    RAISED.load(Ordering::Relaxed)
}

/// Returns when this process is told to stop.
pub async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
