//! Authentication and authorization of clients, and the protocol below HTTP.

use std::future::{Future, ready};
use std::io;
use std::net::IpAddr;

use http::request::Parts;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Reply;
use super::connection::Socket;

/// Decides about connections and requests.
pub trait Guard: Send + Sync + 'static {
    /// The stream from which requests are read.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin;

    /// The identity of a client.
    type Client: Send + Sync;

    /// Performs the handshake of a connection.
    ///
    /// # Errors
    /// The connection cannot be served.
    fn greet(
        &self,
        socket: Socket,
        peer: IpAddr,
    ) -> impl Future<Output = io::Result<(Self::Stream, Self::Client)>> + Send;

    /// Whether this path needs no authorization.
    fn is_open(&self, path: &str) -> bool;

    /// Authorizes a client's request.
    ///
    /// # Errors
    /// The response to a client that is not authorized.
    fn admit(
        &self,
        client: &Self::Client,
        request: &Parts,
    ) -> impl Future<Output = Result<(), Reply>> + Send;
}

/// Admits every client, without TLS.
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
