//! Who is let in, and what is spoken below HTTP.

use std::future::{Future, ready};
use std::io;
use std::net::IpAddr;

use http::request::Parts;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Reply;
use super::connection::Socket;

/// Decides about connections and requests.
pub trait Guard: Send + Sync + 'static {
    /// What requests are read from.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin;

    /// Who is at the other end.
    type Client: Send + Sync;

    /// Begins a connection.
    ///
    /// # Errors
    /// There is nothing to be said to this client.
    fn greet(
        &self,
        socket: Socket,
        peer: IpAddr,
    ) -> impl Future<Output = io::Result<(Self::Stream, Self::Client)>> + Send;

    /// Whether everybody may read this path.
    fn is_open(&self, path: &str) -> bool;

    /// Whether a client may do what it asks for.
    ///
    /// # Errors
    /// What it is told.
    fn admit(
        &self,
        client: &Self::Client,
        request: &Parts,
    ) -> impl Future<Output = Result<(), Reply>> + Send;
}

/// Lets everybody in, without TLS.
pub(super) struct Everybody;

impl Guard for Everybody {
    type Stream = Socket;
    type Client = ();

    fn greet(
        &self,
        socket: Socket,
        _: IpAddr,
    ) -> impl Future<Output = io::Result<(Socket, ())>> + Send {
        ready(Ok((socket, ())))
    }

    fn is_open(&self, _: &str) -> bool {
        true
    }

    fn admit(&self, (): &(), _: &Parts) -> impl Future<Output = Result<(), Reply>> + Send {
        ready(Ok(()))
    }
}
