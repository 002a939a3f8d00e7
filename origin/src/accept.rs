//! Takes connections from a socket and serves each in a task of its own.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::{Extension, Router};
use tokio::net::{TcpListener, TcpStream};
use tower_layer::Layer;
use tracing::warn;

use crate::http::Peer;
use crate::http1::{self, Drain, Limits};
use crate::metrics;

pub struct Acceptor {
    pub limits: Arc<Limits>,
    pub drain: Arc<Drain>,
    pub max_connections: usize,
    /// How many are open.
    pub open: Arc<AtomicUsize>,
    /// Whether requests carry the address of their [`Peer`].
    pub tell_peer: bool,
}

impl Acceptor {
    /// Accepts for as long as it is polled; what was accepted lives on.
    pub async fn run(&self, listener: &TcpListener, router: Router) {
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(fault) => {
                    // Out of files or memory, most likely: existing connections may free some.
                    warn!(%fault, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            self.take(stream, peer, &router);
        }
    }

    /// Takes those that the kernel has let in already: a socket that closes resets them, and with
    /// them the requests that they brought.
    pub async fn run_dry(&self, listener: &TcpListener, router: Router) {
        poll_fn(|cx| {
            while let Poll::Ready(Ok((stream, peer))) = listener.poll_accept(cx) {
                self.take(stream, peer, &router);
            }
            Poll::Ready(())
        })
        .await
    }

    fn take(&self, stream: TcpStream, peer: SocketAddr, router: &Router) {
        if self.open.load(Ordering::Relaxed) < self.max_connections {
            self.spawn(stream, peer, router.clone());
        } else {
            if let Some(metrics) = metrics::get() {
                metrics.connection_refused();
            }
            http1::refuse(stream);
        }
    }

    fn spawn(&self, stream: TcpStream, peer: SocketAddr, router: Router) {
        // Responses leave in one write: waiting for more to send would only delay them.
        let _ = stream.set_nodelay(true);
        let (limits, drain) = (self.limits.clone(), self.drain.clone());
        let open = Open::new(&self.open);
        if self.tell_peer {
            let service = Extension(Peer(peer)).layer(router);
            tokio::spawn(async move {
                http1::serve(stream, service, limits, drain).await;
                drop(open);
            });
        } else {
            tokio::spawn(async move {
                http1::serve(stream, router, limits, drain).await;
                drop(open);
            });
        }
    }
}

/// Counts a connection for as long as it lives.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(open: &Arc<AtomicUsize>) -> Open {
        open.fetch_add(1, Ordering::Relaxed);
        Open(open.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
