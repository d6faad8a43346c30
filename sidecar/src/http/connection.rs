//! One connection: requests in sequence, with a time limit for each step.

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep};

use super::admission::{Admission, Phase};
use super::answer::{Answers, small};
use super::bounded::Bounded;
use super::guard::Guard;

/// How long a connection may go without a complete request, from its start or from the last response on.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// How long a client may take to read a response.
const READ_LIMIT: Duration = Duration::from_secs(30);
/// Buffer size for the head of a request.
const BUFFER: usize = 16 << 10;
/// Bytes allowed for the head of a request with TLS's overhead: a little more, so that a client whose head is too
/// long gets an error response.
const REQUEST: usize = BUFFER + (4 << 10);
/// Minimum pause between two log lines about closed connections.
const QUIET: Duration = Duration::from_secs(60);

/// All open connections of a server; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Open(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    admission: Admission<oneshot::Sender<Infallible>>,
    /// Number of connections closed for want of room since the last log line.
    closed: u64,
    reported: Option<Instant>,
}

impl Open {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a connection, and closes another one if there is no room.
    pub(super) fn admit(&self, peer: IpAddr) -> Admitted {
        let (close, closed) = oneshot::channel();
        let mut table = self.table();
        let (id, victim) = table.admission.admit(peer, now(), close);
        if victim.is_some() {
            table.closed += 1;
        }
        drop(table);
        self.report();
        Admitted {
            member: Arc::new(Member {
                open: self.clone(),
                id,
                sent: Notify::new(),
            }),
            closed,
        }
    }

    /// Closes the connections whose response has been unread for `patience`.
    pub(super) fn close_those_not_reading(&self, patience: Duration) {
        let mut table = self.table();
        let victims = table.admission.not_reading(patience, now());
        table.closed += victims.len() as u64;
        drop(table);
        drop(victims);
        self.report();
    }

    fn report(&self) {
        let mut table = self.table();
        let now = Instant::now();
        let is_quiet = table
            .reported
            .is_some_and(|last| now.duration_since(last) < QUIET);
        if table.closed == 0 || is_quiet {
            return;
        }
        let closed = std::mem::take(&mut table.closed);
        table.reported = Some(now);
        drop(table);
        tracing::warn!(
            closed,
            "Too many HTTP connections: idle ones, or ones whose answer nobody reads, were closed"
        );
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

/// An admitted connection, ready to be served.
#[derive(Debug)]
pub(super) struct Admitted {
    member: Arc<Member>,
    /// Resolves when the connection has to close.
    closed: oneshot::Receiver<Infallible>,
}

/// A connection's entry among the open ones.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) open: Open,
    id: u64,
    /// Notifies that a response has been sent completely.
    sent: Notify,
}

impl Member {
    pub(super) fn enter(&self, phase: Phase) {
        self.open.table().admission.enter(self.id, phase, now());
    }

    fn is_sending(&self) -> bool {
        self.open.table().admission.phase(self.id) == Some(Phase::Sending)
    }

    /// Waits until the last response is sent: without this, responses without a body pile up in hyper's buffer for a
    /// client that sends requests and reads nothing.
    async fn sent(&self) {
        while self.is_sending() {
            self.sent.notified().await;
        }
    }
}

/// Serves `stream` until it ends or has to close.
pub(super) async fn converse<G: Guard>(
    stream: TcpStream,
    peer: IpAddr,
    admitted: Admitted,
    answers: Arc<Answers>,
    guard: Arc<G>,
) {
    let Admitted { member, closed } = admitted;
    let socket = Socket {
        stream: Bounded::new(stream),
        member: Arc::clone(&member),
        limit: None,
    };
    let conversation = async {
        let (stream, client) = guard.greet(socket, peer).await?;
        let service = service_fn(|request: Request<Incoming>| {
            let (member, answers, guard, client) = (&member, &answers, &guard, &client);
            async move {
                member.sent().await;
                // Lets other connections run between two pipelined requests.
                yield_now().await;
                let (head, _body) = request.into_parts();
                let path = head.uri.path();
                if !guard.is_open(path) {
                    member.enter(Phase::Queued);
                    if let Err(refused) = guard.admit(client, &head).await {
                        member.enter(Phase::Sending);
                        return Ok(small(refused));
                    }
                }
                let answer = answers.answer(path, member).await;
                member.enter(Phase::Sending);
                Ok::<_, Infallible>(answer)
            }
        });
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(REQUEST_LIMIT)
            .max_buf_size(BUFFER)
            .serve_connection(TokioIo::new(stream), service)
            .await
            .map_err(io::Error::other)
    };
    tokio::select! {
        biased;
        _ = closed => tracing::debug!("HTTP connection closed for want of room"),
        end = conversation => {
            if let Err(error) = end {
                tracing::debug!(%error, "HTTP connection ended");
            }
        }
    }
}

/// A stream that fails when its peer does not read.
#[derive(Debug)]
pub struct Socket {
    /// Bounds the bytes that the peer may send before the next response.
    stream: Bounded<TcpStream>,
    member: Arc<Member>,
    /// Time by which the response must have been read; set by the first write that has to wait.
    limit: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    /// Fails reads once the peer has sent more than `bytes` bytes, until [`greeted`](Self::greeted): the reader may
    /// hold all of them.
    pub fn greet_within(&mut self, bytes: usize) {
        self.stream.allow(Some(bytes));
    }

    /// Allows requests: before each response as many bytes as one request needs.
    pub fn greeted(&mut self) {
        self.stream.allow(Some(REQUEST));
    }

    fn limited<T>(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            return result;
        }
        let limit = self
            .limit
            .get_or_insert_with(|| Box::pin(sleep(READ_LIMIT)));
        limit
            .as_mut()
            .poll(cx)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.limited(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.limited(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes once its buffer is empty.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() {
            self.limit = None;
            if self.member.is_sending() {
                if self.stream.is_limited() {
                    self.stream.allow(Some(REQUEST));
                }
                self.member.enter(Phase::Idle);
                self.member.sent.notify_one();
            }
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut table = self.member.open.table();
        // A connection that was closed for want of room is already removed.
        if table.admission.phase(self.member.id) != Some(Phase::Idle) {
            // Otherwise the kernel would go on offering the rest of the response to a peer that reads nothing, and
            // keep it for minutes.
            let _ = self.stream.stream().set_zero_linger();
        }
        table.admission.leave(self.member.id);
    }
}
