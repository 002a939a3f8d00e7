//! The server's threads: one worker per core, each with its own event loop, its own accept socket
//! and its own access to the store. Workers share nothing on a request's way, so the server scales
//! over cores and pays nothing for that on one.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use shared::token::Keys;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{self, Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use crate::accept::Acceptor;
use crate::config::Config;
use crate::http::{self, App, Creates, EdgeOnly, FeedCache, Front};
use crate::http1::{Drain, Limits};
use crate::metrics::{self, Metrics};
use crate::store::target::Target;
use crate::store::{Database, OpenError, postgres, sqlite};
use crate::supervisor;

/// What a request in flight has left when idle connections are closed: less than the ten seconds
/// after which a supervisor kills.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(8);

/// The kernel cuts it to `net.core.somaxconn`.
const LISTEN_BACKLOG: u32 = 65_535;

/// Prometheus needs one, a person who looks another.
const MAX_METRICS_CONNECTIONS: usize = 16;

/// File descriptors that are no connections: listeners, databases, logs.
const RESERVED_FILES: u64 = 128;

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("port {} of {} is in use: stop the other server or set PORT", .0.port(), .0.ip())]
    PortInUse(SocketAddr),
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    #[error("cannot listen on METRICS_ADDR {0}: {1}")]
    ListenForMetrics(SocketAddr, io::Error),
    #[error("cannot use the sockets that the service manager passed: {0}")]
    Passed(io::Error),
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

/// Serves until SIGTERM or SIGINT. `ready` is told the address once connections are accepted.
pub fn serve(config: Config, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    let max_files = rlimit::increase_nofile_limit(u64::MAX)?;
    let runtime = event_loop()?;
    // Signals first: one that arrives while the database opens still ends the process in order.
    let (mut terminate, mut interrupt) = {
        let _guard = runtime.enter();
        (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
        )
    };
    let passed = supervisor::listeners(config.workers).map_err(ServeError::Passed)?;
    let listeners_outlive_us = passed.is_some();
    let (address, listeners) = match passed {
        Some(passed) => passed,
        None => listen(&runtime, config.address, config.workers)?,
    };
    let metrics = config.metrics_address.map(listen_for_metrics).transpose()?;
    let database = Arc::new(runtime.block_on(open(&config))?);

    let max_connections = config
        .max_connections
        .unwrap_or_else(|| max_files.saturating_sub(RESERVED_FILES).max(1) as usize);
    let drain = Arc::new(Drain::default());
    let config = Arc::new(config);
    let started = Instant::now();
    let creates = Creates::default();
    let (workers, starts): (Vec<_>, Vec<_>) = listeners
        .into_iter()
        .enumerate()
        .map(|(number, listener)| {
            let (report_start, start) = mpsc::sync_channel(1);
            let worker = Worker {
                config: config.clone(),
                database: database.clone(),
                drain: drain.clone(),
                number,
                listener_outlives_us: listeners_outlive_us,
                started,
                creates: creates.clone(),
                max_connections: max_connections.div_ceil(config.workers),
            };
            thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(move || worker.run(listener, report_start))
                .map(|thread| (thread, start))
        })
        .collect::<io::Result<_>>()?;
    let event_loops: Vec<Handle> = starts.iter().flat_map(mpsc::Receiver::recv).collect();
    if event_loops.len() < workers.len() {
        drain.begin();
        drain.close_idle();
        join(workers)?;
        return Err(ServeError::Start(io::Error::other("a worker ended")));
    }
    if let Some((metrics, listener)) = metrics {
        let address = listener.local_addr()?;
        info!(%address, "metrics at /metrics");
        for counters in database.collectors() {
            metrics.show(counters);
        }
        let limits = config.limits.clone();
        runtime.spawn(serve_metrics(metrics, listener, limits, drain.clone()));
    }
    info!(%address, workers = config.workers, store = %config.target, "serving");
    ready(address);
    supervisor::ready();

    let stopped = runtime.block_on(async {
        tokio::spawn(supervisor::keep_watchdog_calm(event_loops));
        let mut next_signal = async || {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        };
        let signal = next_signal().await;
        info!(signal, "stopping: finishing what is in flight");
        drain.begin();
        // Only now: whoever hears it may count on every answer to close its connection.
        supervisor::stopping();
        tokio::spawn(async move {
            if signal == "SIGTERM" {
                tokio::time::sleep(config.drain_time).await;
            }
            drain.close_idle();
        });
        let joined = tokio::task::spawn_blocking(move || join(workers));
        tokio::select! {
            joined = joined => joined.unwrap_or_else(|fault| Err(fault.into())),
            signal = next_signal() => {
                warn!(signal, "a second signal: stopping at once");
                std::process::exit(1);
            }
        }
    });
    if let Some(database) = Arc::into_inner(database) {
        database.close();
    }
    info!("stopped");
    Ok(stopped?)
}

fn join(workers: Vec<thread::JoinHandle<io::Result<()>>>) -> io::Result<()> {
    workers.into_iter().try_for_each(|worker| {
        worker
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("a worker panicked")))
    })
}

fn event_loop() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

async fn open(config: &Config) -> Result<Database, OpenError> {
    match &config.target {
        Target::Sqlite(path) => Ok(Database::Sqlite(sqlite::Database::open(path)?)),
        Target::Postgres(options) => {
            let database = postgres::Database::open((**options).clone()).await?;
            Ok(Database::Postgres(match config.replica.clone() {
                Some(replica) => database.with_replica(replica),
                None => database,
            }))
        }
    }
}

/// One socket per worker on the same address: the kernel spreads connections over them.
fn listen(
    runtime: &Runtime,
    address: SocketAddr,
    workers: usize,
) -> Result<(SocketAddr, Vec<std::net::TcpListener>), ServeError> {
    let _guard = runtime.enter();
    let explain = |fault: io::Error| match fault.kind() {
        io::ErrorKind::AddrInUse => ServeError::PortInUse(address),
        _ => ServeError::Listen(address, fault),
    };
    let bind = |address: SocketAddr, share_port: bool| -> io::Result<std::net::TcpListener> {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }?;
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(share_port)?;
        socket.bind(address)?;
        socket.listen(LISTEN_BACKLOG)?.into_std()
    };
    // A shared port would be shared with another server's too: asking for it alone, first, finds out.
    let alone = bind(address, false).map_err(explain)?;
    let address = alone.local_addr().map_err(explain)?;
    if workers == 1 {
        return Ok((address, vec![alone]));
    }
    drop(alone);
    let shared = (0..workers).map(|_| bind(address, true).map_err(explain));
    Ok((address, shared.collect::<Result<_, _>>()?))
}

fn listen_for_metrics(
    address: SocketAddr,
) -> Result<(&'static Metrics, std::net::TcpListener), ServeError> {
    let listen = || {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    let listener = listen().map_err(|fault| ServeError::ListenForMetrics(address, fault))?;
    Ok((metrics::enable(), listener))
}

/// On the main thread's event loop, which has little else to do: workers are not kept from theirs.
async fn serve_metrics(
    metrics: &'static Metrics,
    listener: std::net::TcpListener,
    limits: Limits,
    drain: Arc<Drain>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let acceptor = Acceptor {
        limits: Arc::new(limits),
        drain,
        max_connections: MAX_METRICS_CONNECTIONS,
        open: Arc::default(),
        tell_peer: false,
    };
    acceptor.run(&listener, metrics::router(metrics)).await;
    Ok(())
}

struct Worker {
    config: Arc<Config>,
    database: Arc<Database>,
    drain: Arc<Drain>,
    number: usize,
    /// The service manager keeps it: who waits in it is the next server's.
    listener_outlives_us: bool,
    started: Instant,
    creates: Creates,
    max_connections: usize,
}

impl Worker {
    fn run(
        self,
        listener: std::net::TcpListener,
        report_start: mpsc::SyncSender<Handle>,
    ) -> io::Result<()> {
        event_loop()?.block_on(async {
            let listener = TcpListener::from_std(listener)?;
            let store = self.database.worker().map_err(io::Error::other)?;
            let mut keys = Keys::new(self.config.jwt_secret.expose());
            if let Some(previous) = &self.config.jwt_secret_previous {
                keys = keys.or_previous(previous.expose());
            }
            let app = Arc::new(App {
                store,
                keys,
                started: self.started,
                feed_cache: self
                    .config
                    .feed_cache
                    .map(|ttl| FeedCache::new(ttl, self.creates.clone())),
            });
            let front = Front {
                edge_only: self.config.edge_keys.as_deref().map(EdgeOnly::new),
                metrics: metrics::get(),
                log_requests: self.config.log_requests,
            };
            let router = http::router(app, front);
            let open = Arc::new(AtomicUsize::new(0));
            if let Some(metrics) = metrics::get() {
                metrics.watch_connections(self.number, open.clone());
            }
            let acceptor = Acceptor {
                limits: Arc::new(self.config.limits.clone()),
                drain: self.drain.clone(),
                max_connections: self.max_connections,
                open: open.clone(),
                tell_peer: self.config.log_requests,
            };
            let _ = report_start.send(Handle::current());

            tokio::select! {
                () = acceptor.run(&listener, router.clone()) => {}
                () = self.drain.begun() => {}
            }
            if !self.listener_outlives_us {
                acceptor.run_dry(&listener, router).await;
            }
            drop(listener);
            let deadline = Instant::now() + self.config.drain_time + DRAIN_TIMEOUT;
            while open.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            match open.load(Ordering::Relaxed) {
                0 => {}
                left => warn!(left, "connections cut off: their requests took too long"),
            }
            Ok(())
        })
    }
}
