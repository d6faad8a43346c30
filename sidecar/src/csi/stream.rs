//! The driver's socket as a stream that reports its end.
//!
//! tonic notices a lost connection only at the next call. The HTTP/2 connection reads all the time,
//! so an end of file reaches this wrapper even while no call runs.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;

use super::goodbye::Goodbye;
use crate::election::Fence;

/// State of the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The driver has sent its HTTP/2 preface on the current connection, which is still open.
    pub connected: bool,
    /// Number of losses of an established connection.
    pub losses: u64,
    /// The driver closed the connection that was lost last gracefully: it sent GOAWAY without an
    /// error.
    pub(super) in_order: bool,
    /// Number of sockets that have ended, including those without preface.
    pub(super) ends: u64,
}

/// A unix or TCP socket.
#[derive(Debug)]
pub(super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A socket that reports its first byte and its end, and sends nothing without the lease.
#[derive(Debug)]
pub(super) struct Watched {
    socket: Socket,
    state: watch::Sender<State>,
    fence: Fence,
    goodbye: Goodbye,
    established: bool,
    ended: bool,
}

impl Watched {
    pub(super) fn new(socket: Socket, state: watch::Sender<State>, fence: Fence) -> Self {
        Self {
            socket,
            state,
            fence,
            goodbye: Goodbye::default(),
            established: false,
            ended: false,
        }
    }

    fn establish(&mut self) {
        if !self.established {
            self.established = true;
            self.state.send_modify(|state| state.connected = true);
        }
    }

    fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            let losses = u64::from(self.established);
            let in_order = self.goodbye.was_said();
            self.state.send_modify(|state| {
                state.connected = false;
                state.losses += losses;
                state.in_order = in_order;
                state.ends += 1;
            });
        }
    }
}

/// The HTTP/2 layer drops the stream after a GOAWAY or a protocol error, without having read to its
/// end.
impl Drop for Watched {
    fn drop(&mut self) {
        self.end();
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let wanted = buffer.remaining() > 0;
        let result = ready!(match &mut self.socket {
            Socket::Unix(socket) => Pin::new(socket).poll_read(cx, buffer),
            Socket::Tcp(socket) => Pin::new(socket).poll_read(cx, buffer),
        });
        match &result {
            Ok(()) if buffer.filled().len() > before => {
                self.establish();
                let read = buffer.filled().get(before..).unwrap_or_default();
                self.goodbye.read(read);
            }
            Ok(()) if !wanted => {}
            Ok(()) | Err(_) => self.end(),
        }
        Poll::Ready(result)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Err(over) = ready!(self.fence.poll_write()) {
            self.end();
            return Poll::Ready(Err(over));
        }
        let result = ready!(match &mut self.socket {
            Socket::Unix(socket) => Pin::new(socket).poll_write(cx, bytes),
            Socket::Tcp(socket) => Pin::new(socket).poll_write(cx, bytes),
        });
        if result.is_err() {
            self.end();
        }
        Poll::Ready(result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Unix(socket) => Pin::new(socket).poll_flush(cx),
            Socket::Tcp(socket) => Pin::new(socket).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Unix(socket) => Pin::new(socket).poll_shutdown(cx),
            Socket::Tcp(socket) => Pin::new(socket).poll_shutdown(cx),
        }
    }
}
