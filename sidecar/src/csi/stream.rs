//! The driver's socket as a stream that tells when it ends.
//!
//! tonic notices a lost connection at the next call only. The HTTP/2 connection reads all the time
//! though, so an end of file reaches this wrapper while nothing else is going on.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;

use super::goodbye::Goodbye;
use crate::election::Fence;

/// Where the connection stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The driver has sent its HTTP/2 preface on the current connection, which is still open.
    pub connected: bool,
    /// How often an established connection was lost.
    pub losses: u64,
    /// The driver took leave of the connection that was lost last: GOAWAY without an error.
    pub(super) in_order: bool,
    /// How many sockets have ended, those without preface included.
    pub(super) ends: u64,
}

/// A socket of either kind.
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

/// The HTTP/2 layer drops the stream after a GOAWAY or a protocol error, without having seen its
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
