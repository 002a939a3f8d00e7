//! One connection, from its first byte to its last.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use http::{Method, Request, Response};
use shared::ApiError;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Instant, Sleep, sleep_until};
use tower_service::Service;

use super::Limits;
use super::body::Incoming;
use super::head::{self, Head};
use super::response::{self, Shape};
use crate::metrics;

/// Answers to pipelined requests are gathered up to here, then sent before the next is read: a
/// reader that is slow slows its own requests and takes no memory for them.
const MAX_OUTPUT_BYTES: usize = 65_536;

/// A worker's read buffer, shared by its connections: idle ones hold none.
const READ_BUFFER_BYTES: usize = 65_536;

/// After an early refusal the rest of the request is read and thrown away for a moment. Closing at
/// once would reset the connection, and the client might never see the response.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 1 << 20;

/// Tells the connections that the server is going down. First each is closed behind its next
/// response; then, when the server waits no longer, those that are idle close too.
#[derive(Default)]
pub struct Drain {
    begun: AtomicBool,
    begins: Notify,
    closes_idle: AtomicBool,
    notify: Arc<Notify>,
}

impl Drain {
    pub fn begin(&self) {
        self.begun.store(true, Ordering::SeqCst);
        self.begins.notify_waiters();
    }

    pub fn close_idle(&self) {
        self.closes_idle.store(true, Ordering::SeqCst);
        self.notify.notify_waiters();
    }

    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::SeqCst)
    }

    /// Resolves when the drain begins.
    pub async fn begun(&self) {
        let notified = self.begins.notified();
        if !self.has_begun() {
            notified.await;
        }
    }
}

/// Serves requests until the client, a limit or the drain ends the connection.
pub async fn serve<S>(stream: TcpStream, service: S, limits: Arc<Limits>, drain: Arc<Drain>)
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    let mut connection = Connection {
        phase: Phase::Busy,
        deadline: Instant::now(),
        timer: None,
        drained: Box::pin(drain.notify.clone().notified_owned()),
        stream,
        input: Input::default(),
        output: Vec::new(),
        limits,
        drain,
    };
    // Registered before the flag is looked at, so that no drain is missed.
    connection.drained.as_mut().enable();
    // An I/O error means that the client is gone: there is nobody to tell.
    if let Ok(Ending::Linger) = connection.serve_requests(service).await {
        let _ = connection.linger().await;
    }
}

/// Answers a connection too many, as well as that can be done without waiting for it.
pub fn refuse(stream: TcpStream) {
    let mut output = Vec::new();
    response::write_error(&mut output, ApiError::Overloaded);
    let _ = stream.try_write(&output);
}

struct Connection {
    stream: TcpStream,
    /// What has arrived and is not parsed yet.
    input: Input,
    /// What is to be sent.
    output: Vec<u8>,
    limits: Arc<Limits>,
    drain: Arc<Drain>,
    drained: Pin<Box<OwnedNotified>>,
    phase: Phase,
    /// When the present wait must end.
    deadline: Instant,
    /// Fires at some instant not after `deadline`. Moving the deadline later costs nothing: the
    /// timer finds out when it fires.
    timer: Option<Pin<Box<Sleep>>>,
}

#[derive(Default)]
struct Input {
    bytes: Vec<u8>,
    taken: usize,
    /// How much of a head that is not whole was looked at already.
    scanned: usize,
}

/// What the deadline is for. It is set on entering a phase, not with every byte that arrives: a
/// head that comes in pieces, or a trickle of empty lines, does not move it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Head,
    Busy,
}

enum Ending {
    Close,
    Linger,
}

/// Why a wait for input ended.
#[derive(PartialEq, Eq)]
enum Wake {
    Arrived,
    Closed,
    TimedOut,
    Drained,
}

impl Connection {
    async fn serve_requests<S>(&mut self, mut service: S) -> io::Result<Ending>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    {
        loop {
            let head = match self.next_head() {
                Ok(Some(head)) => head,
                Ok(None) => {
                    self.flush().await?;
                    match self.await_head().await? {
                        Some(ending) => return Ok(ending),
                        None => continue,
                    }
                }
                Err(error) => return self.refuse(error).await,
            };
            let Head {
                mut request,
                framing,
                keep_alive,
                expects_continue,
            } = head;
            match Incoming::new(framing, self.limits.body_bytes) {
                Ok(incoming) if incoming.is_complete() => {}
                Ok(incoming) => match self.receive(incoming, expects_continue).await? {
                    Ok(body) => *request.body_mut() = Body::from(body),
                    Err(None) => return Ok(Ending::Close),
                    Err(Some(error)) => return self.refuse(error).await,
                },
                Err(error) => return self.refuse(error).await,
            }

            let (version, without_body) = (request.version(), request.method() == Method::HEAD);
            let Ok(response) = service.call(request).await;
            let keep_alive = keep_alive && !self.drain.has_begun();
            let shape = Shape {
                version,
                keep_alive,
                without_body,
            };
            response::write(&mut self.output, response, shape)
                .await
                .map_err(io::Error::other)?;
            if !keep_alive {
                self.flush().await?;
                return Ok(if self.input.is_empty() {
                    Ending::Close
                } else {
                    Ending::Linger
                });
            }
            if self.output.len() >= MAX_OUTPUT_BYTES {
                self.flush().await?;
            }
        }
    }

    /// The next head, if it has arrived whole.
    fn next_head(&mut self) -> Result<Option<Head>, ApiError> {
        self.input.skip_empty_lines();
        if !self.input.may_complete_a_head(self.limits.head_bytes) {
            return Ok(None);
        }
        let parsed = head::parse(self.input.unread(), self.limits.head_bytes)?;
        Ok(parsed.map(|(head, head_bytes)| {
            self.input.take(head_bytes);
            self.phase = Phase::Busy;
            head
        }))
    }

    /// Waits for more of a head. `Some`: the connection is over.
    async fn await_head(&mut self) -> io::Result<Option<Ending>> {
        let begun = !self.input.is_empty();
        if begun {
            self.enter(Phase::Head, self.limits.head_timeout);
        } else {
            self.input.release();
            self.enter(Phase::Idle, self.limits.idle_timeout);
        }
        match self.read(!begun).await? {
            Wake::Arrived => Ok(None),
            Wake::TimedOut if begun => self.refuse(ApiError::RequestTimedOut).await.map(Some),
            Wake::Closed | Wake::TimedOut | Wake::Drained => Ok(Some(Ending::Close)),
        }
    }

    fn enter(&mut self, phase: Phase, time_limit: Duration) {
        if self.phase != phase {
            self.phase = phase;
            self.deadline = Instant::now() + time_limit;
        }
    }

    /// Receives a whole body. `Err(None)`: the client went away.
    async fn receive(
        &mut self,
        mut incoming: Incoming,
        expects_continue: bool,
    ) -> io::Result<Result<Vec<u8>, Option<ApiError>>> {
        self.deadline = Instant::now() + self.limits.body_timeout;
        let mut invited = !expects_continue;
        loop {
            match incoming.take_from(self.input.unread()) {
                Ok(taken) => self.input.take(taken),
                Err(error) => return Ok(Err(Some(error))),
            }
            if incoming.is_complete() {
                return Ok(Ok(incoming.into_bytes()));
            }
            if !invited {
                invited = true;
                self.output
                    .extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            // Sending the answers to earlier requests does not move this one's deadline.
            let deadline = self.deadline;
            self.flush().await?;
            self.deadline = deadline;
            match self.read(false).await? {
                Wake::Arrived => {}
                Wake::TimedOut => return Ok(Err(Some(ApiError::RequestTimedOut))),
                Wake::Closed | Wake::Drained => return Ok(Err(None)),
            }
        }
    }

    async fn refuse(&mut self, error: ApiError) -> io::Result<Ending> {
        if let Some(metrics) = metrics::get() {
            metrics.request_refused(error);
        }
        response::write_error(&mut self.output, error);
        self.flush().await?;
        Ok(Ending::Linger)
    }

    /// Waits for input, until the deadline, or the drain if that may end the wait.
    async fn read(&mut self, drainable: bool) -> io::Result<Wake> {
        poll_fn(|cx| {
            if let Poll::Ready(read_bytes) = self.poll_read(cx) {
                return Poll::Ready(Ok(if read_bytes? == 0 {
                    Wake::Closed
                } else {
                    Wake::Arrived
                }));
            }
            // After what has arrived: a request that is here already is still answered.
            if drainable && self.poll_drained(cx).is_ready() {
                return Poll::Ready(Ok(Wake::Drained));
            }
            ready!(self.poll_deadline(cx));
            Poll::Ready(Ok(Wake::TimedOut))
        })
        .await
    }

    fn poll_drained(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.drain.closes_idle.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        self.drained.as_mut().poll(cx)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        thread_local! {
            static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BUFFER_BYTES]);
        }
        BUFFER.with_borrow_mut(|buffer| {
            let mut buffer = ReadBuf::new(buffer);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            self.input.append(buffer.filled());
            Poll::Ready(Ok(buffer.filled().len()))
        })
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if deadline < timer.deadline() {
            timer.as_mut().reset(deadline);
        }
        loop {
            ready!(timer.as_mut().poll(cx));
            if deadline <= Instant::now() {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
    }

    /// Sends all of the output.
    async fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.output.len() {
            // Anew with every bit of progress.
            self.deadline = Instant::now() + self.limits.write_timeout;
            sent += poll_fn(|cx| {
                let unsent = &self.output[sent..];
                if let Poll::Ready(sent_bytes) = Pin::new(&mut self.stream).poll_write(cx, unsent) {
                    return Poll::Ready(sent_bytes.and_then(|sent_bytes| match sent_bytes {
                        0 => Err(io::ErrorKind::WriteZero.into()),
                        _ => Ok(sent_bytes),
                    }));
                }
                ready!(self.poll_deadline(cx));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            })
            .await?;
        }
        // Gives the memory back: the next response may be a think time away.
        self.output = Vec::new();
        Ok(())
    }

    async fn linger(&mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        self.deadline = Instant::now() + LINGER;
        let mut discarded = 0;
        while discarded < LINGER_BYTES {
            self.input.release();
            if self.read(false).await? != Wake::Arrived {
                break;
            }
            discarded += self.input.unread().len();
        }
        Ok(())
    }
}

impl Input {
    fn unread(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }

    fn append(&mut self, arrived: &[u8]) {
        if self.taken > 0 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(arrived);
    }

    fn take(&mut self, bytes: usize) {
        self.taken += bytes;
        self.scanned = 0;
    }

    fn release(&mut self) {
        *self = Input::default();
    }

    /// RFC 9112, section 2.2: empty lines before a request are passed over.
    fn skip_empty_lines(&mut self) {
        while let Some(b'\r' | b'\n') = self.bytes.get(self.taken) {
            self.taken += 1;
        }
    }

    /// Whether parsing is worth a try: a line has ended since the last one, or the head is too
    /// long already. A head that arrives byte by byte is so parsed once a line, not once a byte.
    fn may_complete_a_head(&mut self, max_head_bytes: usize) -> bool {
        let unread = &self.bytes[self.taken..];
        let new_line = unread[self.scanned..].contains(&b'\n');
        self.scanned = unread.len();
        new_line || unread.len() >= max_head_bytes
    }
}
