//! Makes an HTTP/2 server on a unix socket accept kubelet's `:authority`.
//!
//! grpc-go derives `:authority` from the dialled target. For kubelet's registration client that is
//! the socket path, percent-encoded (`%2Fvar%2Flib%2Fkubelet%2F…-reg.sock`) or, in old versions,
//! raw. Neither is an authority in the sense of RFC 3986, so `h2` resets the stream with
//! `PROTOCOL_ERROR` before any handler runs, and kubelet never registers the driver
//! (kubernetes#107093, grpc-rust#243). On a unix socket the value carries no meaning, therefore it
//! is replaced on its way in.
//!
//! ```text
//! UnixStream ── read ──► [frame]: which bytes are a header block ──► [hpack]: which are the value
//!      ▲                                                                      │
//!      └───── write, untouched ───── hyper/h2 ◄────── same bytes but for it ──┘
//! ```
//!
//! Nothing is decoded: the rewriting needs the boundaries of frames and of header fields only, not
//! the header compression's dynamic table and not its string coding. It keeps the table of the
//! server compatible with the client's because
//!
//! * each field keeps its representation, so what is inserted, and in which order, stays the same;
//! * the new value is never longer than the old one, so the server never evicts an entry that the
//!   client still counts on. It may evict later, but references count from the newest entry.
//!
//! The other direction, a client that wants to send such a value, uses the same machine with
//! [`Rewriter::to`]; there the lengths are equal.
//!
//! Whatever the machine does not understand (another protocol, a broken frame, a header block without end) passes
//! through unchanged from there to the end of the connection: `h2` judges it.

mod frame;
mod hpack;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

pub use frame::Rewriter;

/// Bytes read from the socket at once; a registration call with its preface fits.
const READ_SIZE: usize = 2048;

/// A server's side of a connection whose peer may send any `:authority`.
#[derive(Debug)]
pub struct AnyAuthority<S> {
    socket: S,
    rewriter: Rewriter,
    ready: BytesMut,
    ended: bool,
}

impl<S> AnyAuthority<S> {
    /// Wraps an accepted connection from which nothing has been read yet.
    pub fn new(socket: S) -> Self {
        Self {
            socket,
            rewriter: Rewriter::default(),
            ready: BytesMut::new(),
            ended: false,
        }
    }
}

impl<S: AsyncRead + Unpin> AnyAuthority<S> {
    /// Reads until there are bytes to pass on, or the peer has closed its side.
    fn fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.ready.is_empty() && !self.ended {
            let mut bytes = [0; READ_SIZE];
            let mut chunk = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut self.socket).poll_read(cx, &mut chunk))?;
            if chunk.filled().is_empty() {
                self.ended = true;
                self.rewriter.finish(&mut self.ready);
            } else {
                self.rewriter.feed(chunk.filled(), &mut self.ready);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for AnyAuthority<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.fill(cx))?;
        let count = self.ready.len().min(buffer.remaining());
        if let Some(bytes) = self.ready.get(..count) {
            buffer.put_slice(bytes);
        }
        self.ready.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for AnyAuthority<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

#[cfg(test)]
mod tests;
