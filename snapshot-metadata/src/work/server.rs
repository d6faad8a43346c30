//! Connections of clients: TLS, HTTP/2, and a call for each stream.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use csi_proto::snapshot_metadata::{GetMetadataAllocatedRequest, GetMetadataDeltaRequest};
use h2::server::{Builder, SendResponse};
use h2::{Ping, PingPong, RecvStream};
use http::{Request, StatusCode};
use sidecar::error::Chain;
use sidecar::http::{Admitted, Bounded};
use sidecar::secure::concurrency::ConcurrencyLimit;
use sidecar::secure::handshakes::Handshakes;
use sidecar::shutdown::Requested;
use sidecar::verbose;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::Status;

use super::call::Service;
use super::connection::{self, Connection};
use super::grpc::{self, Answer};
use super::health;

/// Concurrent calls on one connection.
const CALLS: u32 = 128;
/// How long the HTTP/2 handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a connection may idle before the server closes it; clients reconnect when they need to.
const IDLE: Duration = Duration::from_mins(2);
/// Interval of PINGs, and how long the client may take for the answer.
const ALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
/// Concurrent calls, of all clients and of one address. A call takes memory before it is authenticated.
pub const AT_ONCE: (usize, usize) = (2048, 1024);
/// Bytes that the server accepts from a client before the handshakes are done.
const GREETING: usize = 4 << 10;
/// Largest header list.
const HEADERS: u32 = 8 << 10;
/// Response bytes that a connection buffers for each stream.
const BUFFER: usize = 64 << 10;
/// Pause when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long the last bytes of ended calls may take to go out.
const LAST_BYTES: Duration = Duration::from_millis(500);

/// A client's stream over TLS.
type Secured = TlsStream<Bounded<TcpStream>>;

/// State that all connections share.
#[derive(Debug)]
pub struct Server {
    /// Answers calls.
    pub service: Service,
    /// Set once this process is to terminate.
    pub ending: Requested,
    /// Whether the driver accepts calls and this process does not terminate.
    pub ready: watch::Receiver<bool>,
    /// Number of running calls.
    pub calls: watch::Sender<usize>,
    /// Limits concurrent calls to [`AT_ONCE`]; an address may hold as many as are free.
    pub limit: ConcurrencyLimit<IpAddr>,
    /// Limits TLS handshakes.
    pub handshakes: Handshakes,
}

impl Server {
    /// Serves until the process is to terminate, then waits until calls have ended or `grace` is over.
    pub async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        grace: Duration,
        over: watch::Sender<bool>,
    ) {
        let mut connections = JoinSet::new();
        let open = connection::open_connections();
        let mut ending = pin!(self.ending.requested());
        loop {
            tokio::select! {
                biased;
                () = &mut ending => break,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        let peer = peer.ip().to_canonical();
                        let Admitted { member, closed } = open.admit(peer);
                        let connection = Connection::new(peer, member);
                        let this = Arc::clone(&self);
                        connections.spawn(this.converse(stream, connection, closed));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "Cannot accept a connection");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(listener);
        let mut calls = self.calls.subscribe();
        let ended = timeout(grace, calls.wait_for(|calls| *calls == 0)).await;
        if ended.is_err() {
            tracing::warn!("Calls that still run are ended");
        }
        over.send_replace(true);
        let all = async { while connections.join_next().await.is_some() {} };
        // Connections of clients that do not close in time are dropped.
        let _ = timeout(LAST_BYTES, all).await;
    }

    async fn converse(
        self: Arc<Self>,
        stream: TcpStream,
        client: Arc<Connection>,
        closed: oneshot::Receiver<Infallible>,
    ) {
        let conversation = async {
            let connection = self.greet(stream, client.peer).await?;
            self.serve_calls(connection, &client).await
        };
        let ended = tokio::select! {
            biased;
            _ = closed => Err("it made room for another client".to_owned()),
            ended = conversation => ended,
        };
        if let Err(why) = ended {
            verbose!(4, peer = %client.peer, reason = why, "Connection of a client ended");
        }
    }

    async fn greet(
        &self,
        stream: TcpStream,
        peer: IpAddr,
    ) -> Result<h2::server::Connection<Secured, Bytes>, String> {
        let late = |_elapsed| "it says nothing".to_owned();
        // Response pieces are as large as possible already, so Nagle's delay gains nothing.
        let _ = stream.set_nodelay(true);
        let acceptor = TlsAcceptor::from(self.service.certificates.current());
        let mut stream = Bounded::new(stream);
        stream.allow(Some(GREETING));
        let secured = self.handshakes.carry_out(peer, acceptor.accept(stream));
        let mut secured = secured.await.map_err(|error| Chain(&error).to_string())?;
        if secured.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Err("it does not speak HTTP/2".to_owned());
        }
        // From here on, HTTP/2's own limits bound what a client sends.
        secured.get_mut().0.allow(None);
        let greeting = Builder::new()
            .max_concurrent_streams(CALLS)
            .max_header_list_size(HEADERS)
            .max_send_buffer_size(BUFFER)
            .handshake(secured);
        let greeted = timeout(HANDSHAKE, greeting).await.map_err(late)?;
        greeted.map_err(|error| error.to_string())
    }

    async fn serve_calls(
        self: &Arc<Self>,
        mut connection: h2::server::Connection<Secured, Bytes>,
        client: &Arc<Connection>,
    ) -> Result<(), String> {
        let mut alive = pin!(is_dead(connection.ping_pong()));
        let mut ending = pin!(self.ending.requested());
        let mut is_leaving = false;
        let mut last = Instant::now();
        // Dropping the connection drops its calls, and so the driver's streams.
        let mut calls = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                why = &mut alive => return Err(why),
                Some(_) = calls.join_next() => last = Instant::now(),
                () = &mut ending, if !is_leaving => {
                    is_leaving = true;
                    connection.graceful_shutdown();
                }
                () = sleep_until(last + IDLE), if calls.is_empty() && !is_leaving => {
                    is_leaving = true;
                    connection.graceful_shutdown();
                }
                next = connection.accept() => match next {
                    None => return Ok(()),
                    Some(Err(error)) => return Err(error.to_string()),
                    Some(Ok((request, respond))) => {
                        let (this, client) = (Arc::clone(self), Arc::clone(client));
                        calls.spawn(async move { this.dispatch(request, respond, &client).await });
                    }
                },
            }
        }
    }

    async fn dispatch(
        &self,
        request: Request<RecvStream>,
        respond: SendResponse<Bytes>,
        client: &Arc<Connection>,
    ) {
        let answer = Answer::new(respond);
        let (head, body) = request.into_parts();
        if !grpc::is_grpc(&head.headers) {
            return answer.refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        }
        let Some(_permit) = self.limit.try_enter(&client.peer) else {
            return answer.end(&Status::unavailable("too many calls at the same time"));
        };
        let (service, limit) = (&self.service, grpc::timeout_of(&head.headers));
        let uri = head.uri.clone();
        // A call may last for hours and does not need its headers.
        drop(head);
        let path = uri.path();
        match path {
            "/grpc.health.v1.Health/Check" => {
                return health::check(body, answer, &self.ready).await;
            }
            "/grpc.health.v1.Health/Watch" => {
                return health::watch(body, answer, self.ready.clone()).await;
            }
            _ => {}
        }
        let _running = Running::new(&self.calls);
        match path {
            "/snapshotmetadata.SnapshotMetadata/GetMetadataAllocated" => {
                type Asked = GetMetadataAllocatedRequest;
                Box::pin(service.serve::<Asked>(client, limit, body, answer)).await;
            }
            "/snapshotmetadata.SnapshotMetadata/GetMetadataDelta" => {
                type Asked = GetMetadataDeltaRequest;
                Box::pin(service.serve::<Asked>(client, limit, body, answer)).await;
            }
            _ => answer.end(&Status::unimplemented("unknown service or method")),
        }
    }
}

/// Counts a call while it runs.
struct Running<'a>(&'a watch::Sender<usize>);

impl<'a> Running<'a> {
    fn new(calls: &'a watch::Sender<usize>) -> Self {
        calls.send_modify(|calls| *calls += 1);
        Self(calls)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|calls| *calls = calls.saturating_sub(1));
    }
}

/// Pings the client at intervals; returns the reason once the client does not answer.
async fn is_dead(ping: Option<PingPong>) -> String {
    let Some(mut ping) = ping else {
        return std::future::pending().await;
    };
    loop {
        sleep(ALIVE.0).await;
        match timeout(ALIVE.1, ping.ping(Ping::opaque())).await {
            Ok(Ok(_pong)) => {}
            Ok(Err(error)) => return error.to_string(),
            Err(_elapsed) => return "it does not answer a PING".to_owned(),
        }
    }
}
