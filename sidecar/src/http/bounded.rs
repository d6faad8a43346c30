//! A stream that limits the bytes that the peer may send.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Fails a read once the peer has sent more bytes than allowed: the reader may keep all of them in memory.
#[derive(Debug)]
pub struct Bounded<S> {
    stream: S,
    /// Bytes that the peer may still send; `None` means no limit.
    left: Option<usize>,
}

impl<S> Bounded<S> {
    /// A stream without a limit.
    #[must_use]
    pub const fn new(stream: S) -> Self {
        Self { stream, left: None }
    }

    /// Lets the peer send `bytes` bytes from now on; `None` means no limit.
    pub const fn allow(&mut self, bytes: Option<usize>) {
        self.left = bytes;
    }

    /// Whether there is a limit.
    pub(super) const fn is_limited(&self) -> bool {
        self.left.is_some()
    }

    /// The stream itself.
    pub const fn stream(&self) -> &S {
        &self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(left) = self.left else {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        };
        if left == 0 {
            return Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()));
        }
        let room = left.min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(room));
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut part);
        let count = part.filled().len();
        buffer.advance(count);
        self.left = Some(left - count);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
