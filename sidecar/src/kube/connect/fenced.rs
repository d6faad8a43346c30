//! Connections to the API server on which nothing is sent without the lease.
//!
//! Here and not where a request begins: after that it may wait for a connection, for a token or for
//! room on the connection, and the process may be stopped meanwhile.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower::util::MapResponse;
use tower_service::Service;

use crate::election::Fence;

/// `connector`, whose connections `fence` guards.
pub(super) fn fenced<C, S>(
    connector: C,
    fence: &Fence,
) -> MapResponse<C, impl FnOnce(S) -> Fenced<S> + Clone + Send + Sync + use<C, S>>
where
    C: Service<Uri, Response = S>,
{
    let fence = fence.clone();
    MapResponse::new(connector, move |stream| Fenced { stream, fence })
}

/// A connection. Every byte counts, also of what is only read with: it is a new leader's turn.
#[derive(Debug)]
pub(super) struct Fenced<S> {
    stream: S,
    fence: Fence,
}

impl<S: Connection> Connection for Fenced<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

impl<S: Read + Unpin> Read for Fenced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: Write + Unpin> Write for Fenced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.fence.poll_write())?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    /// HTTP/2 writes each body of 256 bytes and more by itself to a stream that can, and gathers
    /// requests up to 1 KiB, as ours are, for one that cannot. TLS copies either way.
    fn is_write_vectored(&self) -> bool {
        false
    }

    /// TLS may still hold what was written before.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.fence.poll_write())?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.fence.poll_write())?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
