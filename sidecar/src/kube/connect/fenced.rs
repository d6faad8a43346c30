//! Connections to the API server that send nothing without the lease, and that report how many concurrent
//! requests they accept.
//!
//! The check is here and not where a request begins: after that the request may wait for a connection, for a
//! token or for room on the connection, and the process may be stopped meanwhile.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Uri;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower::util::MapResponse;
use tower_service::Service;

use super::pool::StreamLimit;
use super::settings::SettingsFrame;
use crate::election::Fence;

/// Bytes read at a time until the settings frame is complete.
const FIRST_BYTES: usize = 256;

/// Wraps `connector`: `fence` guards its connections, and they set `limit` from the server's settings.
pub(super) fn fenced<C, S>(
    connector: C,
    fence: &Fence,
    limit: StreamLimit,
) -> MapResponse<C, impl FnOnce(S) -> Fenced<S> + Clone + Send + Sync + use<C, S>>
where
    C: Service<Uri, Response = S>,
    S: Connection,
{
    let fence = fence.clone();
    MapResponse::new(connector, move |stream: S| {
        let mut settings_frame = None;
        if stream.connected().is_negotiated_h2() {
            settings_frame = Some((SettingsFrame::default(), limit));
        } else {
            // HTTP/1.1 has a connection per request.
            limit.set(usize::MAX);
        }
        Fenced {
            stream,
            fence,
            settings_frame,
        }
    })
}

/// A guarded connection. The fence checks every write, even of requests that only read: a new leader may be at
/// work.
#[derive(Debug)]
pub(super) struct Fenced<S> {
    stream: S,
    fence: Fence,
    /// The server's first frame, until it is complete.
    settings_frame: Option<(SettingsFrame, StreamLimit)>,
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
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let stream = Pin::new(&mut this.stream);
        let Some((settings_frame, limit)) = &mut this.settings_frame else {
            return stream.poll_read(context, buffer);
        };
        let mut bytes = [0; FIRST_BYTES];
        let (bytes, _) = bytes.split_at_mut(buffer.remaining().min(FIRST_BYTES));
        let mut bytes = ReadBuf::new(bytes);
        ready!(stream.poll_read(context, bytes.unfilled()))?;
        buffer.put_slice(bytes.filled());
        if let Some(most) = settings_frame.read(bytes.filled()) {
            limit.set(most);
            this.settings_frame = None;
        }
        Poll::Ready(Ok(()))
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

    /// HTTP/2 writes each body of 256 bytes and more separately to a stream with vectored writes, and gathers
    /// requests up to 1 KiB, such as ours, for one without. TLS copies either way.
    fn is_write_vectored(&self) -> bool {
        false
    }

    /// TLS may still hold bytes written before.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.fence.poll_write())?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.fence.poll_write())?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
