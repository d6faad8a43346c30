//! One connection: requests in sequence, with a time limit for each step.

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio::time::{Sleep, sleep};

use super::admission::Phase;
use super::answer::{Answers, small};
use super::bounded::Bounded;
use super::guard::Guard;
use super::open::{Admitted, Member};

/// How long a connection may go without a complete request, from its start or from the last response on.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// How long a client may take to read a response.
const READ_LIMIT: Duration = Duration::from_secs(30);
/// Buffer size for the head of a request.
const BUFFER: usize = 16 << 10;
/// Bytes allowed for the head of a request with TLS's overhead: a little more, so that a client whose head is too
/// long gets an error response.
const REQUEST: usize = BUFFER + (4 << 10);
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
                let answer = answers.answer(&head, member).await;
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
                self.member.has_sent();
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
        // A connection that was closed for want of room is already removed.
        if self.member.phase() != Some(Phase::Idle) {
            // Otherwise the kernel would go on offering the rest of the response to a peer that reads nothing, and
            // keep it for minutes.
            let _ = self.stream.stream().set_zero_linger();
        }
    }
}
