//! gRPC connections to unix sockets.
//!
//! tonic connects lazily, and calls a connection ready before the peer has sent anything. Kubelet's client does
//! neither: it dials until the peer has answered HTTP/2's greeting, so that it notices a socket without a listener, or
//! with one that never answers.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use sidecar::error::Chain;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::sleep;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

use super::authority::Outgoing;

/// Makes a call with a deadline, which is sent to the peer and enforced here as well.
///
/// # Errors
/// The call's status, or `DeadlineExceeded`.
pub async fn call<M, R>(
    limit: Duration,
    message: M,
    send: impl AsyncFnOnce(Request<M>) -> Result<Response<R>, Status>,
) -> Result<R, Status> {
    let mut request = Request::new(message);
    request.set_timeout(limit);
    tokio::select! {
        // First: tonic has a timer of the same length, which would report a cancelled call.
        biased;
        () = sleep(limit) => Err(Status::deadline_exceeded("context deadline exceeded")),
        answer = send(request) => Ok(answer?.into_inner()),
    }
}

/// The first frame of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Greeting {
    /// The peer has sent no frame yet.
    Awaited,
    /// An HTTP/2 SETTINGS frame, as it must.
    Received,
    /// Something else, or it hung up.
    Missing,
}

/// Connects to `socket` and waits for the peer's greeting, without limit.
///
/// Later calls open the connection again if it is lost.
///
/// # Errors
/// `Unavailable` if no process listens, or the listener does not speak HTTP/2.
pub async fn connect(socket: &Path, authority: &str) -> Result<Channel, Status> {
    let (greeting, mut greeted) = watch::channel(Greeting::Awaited);
    let outgoing = Outgoing::new(authority);
    let origin = format!("http://{}", outgoing.placeholder());
    let connector = Connector {
        socket: socket.to_path_buf(),
        greeting: greeting.into(),
        outgoing,
    };
    let unavailable = |reason: String| {
        Status::unavailable(format!("connecting to {}: {reason}", socket.display()))
    };
    let endpoint = Endpoint::from_shared(origin).map_err(|e| unavailable(Chain(&e).to_string()))?;
    let channel = endpoint
        .connect_with_connector(connector)
        .await
        .map_err(|error| unavailable(Chain(&error).to_string()))?;
    let answer = greeted
        .wait_for(|greeting| *greeting != Greeting::Awaited)
        .await;
    if answer.is_ok_and(|greeting| *greeting == Greeting::Received) {
        return Ok(channel);
    }
    Err(unavailable(
        "what listens there does not speak HTTP/2".to_owned(),
    ))
}

/// Opens the socket, again for each connection.
struct Connector {
    socket: PathBuf,
    greeting: Arc<watch::Sender<Greeting>>,
    outgoing: Outgoing,
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _origin: Uri) -> Self::Future {
        let socket = self.socket.clone();
        let greeting = Some(Arc::clone(&self.greeting));
        let outgoing = self.outgoing.restarted();
        Box::pin(async move {
            let inner = UnixStream::connect(socket).await?;
            Ok(TokioIo::new(Stream {
                inner,
                outgoing,
                greeting,
                head: Vec::new(),
            }))
        })
    }
}

/// Length of an HTTP/2 frame head, and offset of the frame type in it (RFC 9113 section 4.1).
const HEAD: usize = 9;
const TYPE: usize = 3;
const SETTINGS: u8 = 4;

/// A connection that checks the first frame it receives, and writes the authority into the frames it sends.
struct Stream {
    inner: UnixStream,
    outgoing: Outgoing,
    /// `None` once the peer's greeting is known.
    greeting: Option<Arc<watch::Sender<Greeting>>>,
    /// The first bytes received.
    head: Vec<u8>,
}

impl Stream {
    fn received(&mut self, bytes: &[u8]) {
        let Some(greeting) = &self.greeting else {
            return;
        };
        self.head.extend(bytes.iter().take(HEAD - self.head.len()));
        let verdict = match self.head.get(TYPE) {
            _ if bytes.is_empty() => Greeting::Missing,
            Some(&SETTINGS) if self.head.len() == HEAD => Greeting::Received,
            Some(&SETTINGS) | None => return,
            Some(_) => Greeting::Missing,
        };
        greeting.send_replace(verdict);
        self.greeting = None;
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.received(&[]);
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        self.received(buffer.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self {
            inner, outgoing, ..
        } = &mut *self;
        outgoing.poll_write(Pin::new(inner), cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self {
            inner, outgoing, ..
        } = &mut *self;
        ready!(outgoing.poll_flush(Pin::new(&mut *inner), cx))?;
        Pin::new(inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
