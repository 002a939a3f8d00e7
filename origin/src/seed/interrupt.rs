//! Ctrl-C and SIGTERM: the work stops at its next chance and cleans up after itself.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use super::Error;

#[derive(Clone, Default)]
pub struct Interrupt {
    raised: Arc<AtomicBool>,
    /// What ends a long statement (building an index, VACUUM) that never looks at `raised`.
    statement: Arc<Mutex<Option<rusqlite::InterruptHandle>>>,
}

impl Interrupt {
    pub fn check(&self) -> Result<(), Error> {
        if self.raised.load(Ordering::Relaxed) {
            Err(Error::Interrupted)
        } else {
            Ok(())
        }
    }

    pub fn also_ends(&self, connection: &rusqlite::Connection) {
        *self.statement.lock().expect("never poisoned") = Some(connection.get_interrupt_handle());
    }

    pub fn raise(&self) {
        self.raised.store(true, Ordering::Relaxed);
        if let Some(statement) = &*self.statement.lock().expect("never poisoned") {
            statement.interrupt();
        }
    }
}

/// Resolves when the process is asked to stop.
pub async fn signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::select! {
        outcome = tokio::signal::ctrl_c() => outcome?,
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
    Ok(())
}
