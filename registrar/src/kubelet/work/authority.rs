//! Sends any text as `:authority`.
//!
//! grpc-go, and so kubelet, sends the percent-encoded path of a registration socket, which the crate `http` rejects as
//! an authority. So tonic gets a placeholder of the same length, and the value replaces it on the way out, with the
//! machine that the registrar uses in the other direction ([`crate::authority`]). The dynamic tables of both ends stay
//! equal, because a field keeps its representation and its decoded length.

use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::AsyncWrite;

use crate::authority::Rewriter;

/// The socket's path as grpc-go writes it into `:authority`: every character that an authority cannot have is
/// percent-encoded.
#[must_use]
pub(super) fn of_socket(socket: &Path) -> String {
    let mut encoded = String::new();
    for &byte in socket.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]@".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// The outgoing side of a connection.
pub(super) struct Outgoing {
    authority: String,
    /// `None` if tonic can send the authority by itself.
    rewriter: Option<Rewriter>,
    /// Rewritten bytes that are not sent yet.
    pending: BytesMut,
}

impl Outgoing {
    /// A connection whose requests carry `authority`.
    pub(super) fn new(authority: &str) -> Self {
        let rewriter = match authority.parse::<http::uri::Authority>() {
            Ok(_) => None,
            Err(_) => Some(Rewriter::to(authority)),
        };
        Self {
            authority: authority.to_owned(),
            rewriter,
            pending: BytesMut::new(),
        }
    }

    /// The outgoing side of another connection with the same authority.
    pub(super) fn restarted(&self) -> Self {
        Self::new(&self.authority)
    }

    /// The authority that tonic gets.
    pub(super) fn placeholder(&self) -> String {
        match self.rewriter {
            None => self.authority.clone(),
            Some(_) => "x".repeat(self.authority.len()),
        }
    }

    /// Takes all of `bytes` once everything before is sent.
    pub(super) fn poll_write<S: AsyncWrite>(
        &mut self,
        mut socket: Pin<&mut S>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(socket.as_mut(), cx))?;
        let Some(rewriter) = &mut self.rewriter else {
            return socket.poll_write(cx, bytes);
        };
        rewriter.feed(bytes, &mut self.pending);
        if let Poll::Ready(Err(error)) = self.poll_flush(socket, cx) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(bytes.len()))
    }

    /// Sends the pending bytes; does not flush the socket itself.
    pub(super) fn poll_flush<S: AsyncWrite>(
        &mut self,
        mut socket: Pin<&mut S>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.pending.is_empty() {
            let sent = ready!(socket.as_mut().poll_write(cx, &self.pending))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.pending.advance(sent);
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_encoded_as_grpc_go_does() {
        let rows = [
            (
                "/var/lib/kubelet/d-reg.sock",
                "%2Fvar%2Flib%2Fkubelet%2Fd-reg.sock",
            ),
            ("/a b%/~_.:@", "%2Fa%20b%25%2F~_.:@"),
            ("/\u{e9}", "%2F%C3%A9"),
        ];
        for (socket, expected) in rows {
            assert_eq!(of_socket(Path::new(socket)), expected);
        }
    }

    #[test]
    fn placeholders_have_the_length_of_the_value() {
        assert_eq!(Outgoing::new("localhost").placeholder(), "localhost");
        assert_eq!(Outgoing::new("%2Fa").placeholder(), "xxxx");
    }
}
