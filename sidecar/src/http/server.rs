//! The listener, and the loop that accepts connections.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::yield_now;
use tokio::time::sleep;

use super::Routes;
use super::admission::Limits;
use super::answer::Answers;
use super::connection::converse;
use super::guard::{Everybody, Guard};
use super::open::OpenConnections;

/// A node's probes and a scraper share an address with everything else on that node's network.
pub(super) const LIMITS: Limits = Limits {
    all: 512,
    per_peer: 64,
};
const CLOSED: &str =
    "Too many HTTP connections: idle ones, or ones whose answer nobody reads, were closed";
/// Length of the queue of connections not yet accepted.
const BACKLOG: u32 = 1024;
/// Number of connections accepted before other tasks get a turn.
const AT_ONCE: u32 = 16;
/// Bytes of a response that the kernel buffers.
const SEND_BUFFER: u32 = 64 << 10;
/// Bytes of requests that the kernel buffers.
const RECEIVE_BUFFER: u32 = 32 << 10;

/// The server cannot listen; the wording is Go's.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address is malformed.
    #[error("listen tcp: address {address}: {reason}")]
    Address {
        /// The address as given.
        address: String,
        /// The fault in it.
        reason: &'static str,
    },
    /// The operating system refused.
    #[error("listen tcp {address}")]
    Listen {
        /// The address as given.
        address: String,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
}

/// A listening server.
#[derive(Debug)]
pub struct Server {
    pub(super) listener: TcpListener,
}

impl Server {
    /// Listens on `host:port`; without a host on all interfaces.
    ///
    /// # Errors
    /// The address is malformed, taken, or not this machine's.
    pub async fn bind(address: &str) -> Result<Self, ListenError> {
        let (host, port) = split(address).map_err(|reason| ListenError::Address {
            address: address.to_owned(),
            reason,
        })?;
        let listener = match host {
            "" => everywhere(port),
            host => first_of(host, port).await,
        };
        let listener = listener.map_err(|source| ListenError::Listen {
            address: address.to_owned(),
            source,
        })?;
        Ok(Self { listener })
    }

    /// The address of the listener, with the actual port.
    ///
    /// # Errors
    /// The operating system returned an error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves every client until dropped.
    pub async fn serve(self, routes: Routes) {
        self.serve_guarded(routes, Everybody).await;
    }

    /// Serves the clients that `guard` admits, until dropped.
    pub async fn serve_guarded(self, routes: Routes, guard: impl Guard) {
        let (answers, guard) = (Arc::new(Answers::new(routes)), Arc::new(guard));
        let open = OpenConnections::new(LIMITS, CLOSED);
        let mut accepted = 0_u32;
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let admitted = open.admit(peer.ip());
                    let (answers, guard) = (Arc::clone(&answers), Arc::clone(&guard));
                    tokio::spawn(converse(stream, peer.ip(), admitted, answers, guard));
                    // Lets the connections read their requests, which are usually there already, before
                    // later ones could have them closed as idle.
                    accepted = accepted.wrapping_add(1);
                    if accepted.is_multiple_of(AT_ONCE) {
                        yield_now().await;
                    }
                }
                // Out of file descriptors, or the client went away: neither ends the server.
                Err(error) => {
                    tracing::warn!(%error, "Cannot accept an HTTP connection");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

/// Listens on all IPv6 and IPv4 addresses, or on IPv4 alone where IPv6 is disabled.
///
/// # Errors
/// The port is taken, or this process may not use it.
pub fn everywhere(port: u16) -> io::Result<TcpListener> {
    let both = || {
        let socket = TcpSocket::new_v6()?;
        // The system's net.ipv6.bindv6only is only the default for sockets that set nothing.
        SockRef::from(&socket).set_only_v6(false)?;
        listen(socket, SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))
    };
    match both() {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            listen(TcpSocket::new_v4()?, (Ipv4Addr::UNSPECIFIED, port).into())
        }
        listener => listener,
    }
}

/// Listens on the first address of `host` that works.
async fn first_of(host: &str, port: u16) -> io::Result<TcpListener> {
    let mut failed = None;
    for address in tokio::net::lookup_host((host, port)).await? {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        };
        match socket.and_then(|socket| listen(socket, address)) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()))
}

fn listen(socket: TcpSocket, address: SocketAddr) -> io::Result<TcpListener> {
    socket.set_reuseaddr(true)?;
    // Connections inherit these. Unread responses and requests wait in kernel memory, which is accounted
    // to the pod.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Splits `host:port`; brackets hold an IPv6 address.
fn split(address: &str) -> Result<(&str, u16), &'static str> {
    let (host, port) = address.rsplit_once(':').ok_or("missing port in address")?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or("missing ']' in address")?,
        None if host.contains(':') => return Err("too many colons in address"),
        None => host,
    };
    // Go reads an empty port as zero, and also accepts service names, which no manifest uses.
    if port.is_empty() {
        return Ok((host, 0));
    }
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("unknown port");
    }
    port.parse()
        .map(|port| (host, port))
        .map_err(|_| "invalid port")
}
