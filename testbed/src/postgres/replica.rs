//! A streaming replica of a running server, and the ways in which one fails to keep up.

use super::*;

impl Postgres {
    /// A replica that streams from this server through a slot of its own, ready for readers.
    pub fn start_replica(&self, settings: &[(&str, &str)]) -> Result<Postgres> {
        let slot = format!("replica_{}", net::free_port());
        let options = Options {
            settings: settings
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
            from: None,
            fsync: self.options.fsync,
        };
        let replica = Self::create_with(options, |data, programs| {
            let mut copy = programs.command("pg_basebackup");
            copy.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"])
                .args(["--create-slot", "--slot", &slot, "--dbname", &self.url()])
                .arg("--pgdata")
                .arg(data);
            process::run(copy).map(drop)
        })?;
        replica.started_on_a_free_port(AS_IT_IS)
    }

    /// Keeps what arrives without replaying it: the replica falls behind and goes on answering.
    pub fn pause_replay(&self) -> Result<()> {
        self.query("SELECT pg_wal_replay_pause()")?;
        // The request counts once the process that replays has seen it.
        net::wait_until("replay to pause", STOP_LIMIT, || {
            Ok(self.query("SELECT pg_get_wal_replay_pause_state()")? == "paused")
        })
    }

    pub fn resume_replay(&self) -> Result<()> {
        self.query("SELECT pg_wal_replay_resume()").map(drop)
    }

    /// Makes a primary of it, as an operator does when the primary is lost.
    pub fn promote(&self) -> Result<()> {
        let promoted = self.query("SELECT pg_promote(true, 30)")?;
        match promoted.as_str() {
            "t" => Ok(()),
            _ => Err(Error::new("the replica was not promoted within 30 s")),
        }
    }

    /// Waits until a replica has replayed what this server holds now.
    pub fn wait_for_replay(&self, replica: &Postgres) -> Result<()> {
        let lsn = self.query("SELECT pg_current_wal_flush_lsn()")?;
        let caught_up = format!("SELECT pg_last_wal_replay_lsn() >= '{lsn}'");
        net::wait_until("the replica to catch up", STOP_LIMIT, || {
            Ok(replica.query(&caught_up)? == "t")
        })
    }

    /// SIGSTOP for every process: connections stay, and nothing answers on them.
    pub fn freeze(&self) {
        self.signal_all(Signal::STOP);
    }

    pub fn thaw(&self) {
        self.signal_all(Signal::CONT);
    }

    fn signal_all(&self, signal: Signal) {
        if let Some(root) = self.pid() {
            signal_tree(root, signal);
        }
    }
}
