//! The connection to the driver.
//!
//! Established before anything else happens, kept for the life of the process, and watched: a controller must not
//! rely on what it learned from a driver that has been replaced.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use tonic::transport::{Endpoint, Uri};

use super::observe::{Channel, Observer};
use super::stream::{Socket, Watched};
use crate::election::Fence;
use crate::error::Chain;
use crate::rt::unit_random;
use crate::verbose;

pub use super::address::{Address, AddressError};
pub use super::stream::State;

/// Default time limit for connecting.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Average pause between attempts; the actual one differs by up to a fifth.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Time limit of one attempt: a hung driver must not keep us from its successor, which listens on a new socket of the
/// same name. Go's gRPC has the same value.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval of the log lines about continuing attempts.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// The reaction to the loss of an established connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// The next call connects again; calls fail with `Unavailable` meanwhile.
    Reconnect,
    /// Never connect again: every later call fails with `Unavailable`.
    Stop,
}

/// Settings of a connection to the driver.
#[derive(Clone, Debug)]
pub struct Options {
    /// Give up after this time; `None` tries for ever. Covers establishing the connection only.
    pub timeout: Option<Duration>,
    /// The reaction to a loss.
    pub on_loss: OnLoss,
    /// Logs and measures calls.
    pub observer: Observer,
    /// Blocks calls once this process no longer holds the lease.
    pub fence: Fence,
}

impl Options {
    /// Thirty seconds to connect, calls logged but not measured, and no leader election.
    pub fn new(on_loss: OnLoss) -> Self {
        Self {
            timeout: Some(DEFAULT_TIMEOUT),
            on_loss,
            observer: Observer::default(),
            fence: Fence::default(),
        }
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The driver did not answer in time. The wording includes Go's.
    #[error(
        "cannot connect to the CSI driver at {address}: context deadline exceeded (last attempt: {last})"
    )]
    Timeout {
        /// The driver's address.
        address: Address,
        /// Why the last attempt failed.
        last: String,
    },
}

/// A connection that was established once and is watched from then on.
#[derive(Clone, Debug)]
pub struct Connection {
    channel: Channel,
    state: watch::Receiver<State>,
}

impl Connection {
    /// The channel that clients are built on; cheap to clone.
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// The state, to be read or waited on.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// Resolves when the connection is lost, at once if it already was, even while no call runs. Returns whether the
    /// driver closed it gracefully.
    ///
    /// Also resolves when the last clone of the connection and its channels is gone.
    pub fn lost(&self) -> impl Future<Output = bool> + Send + 'static {
        let mut state = self.state.clone();
        async move {
            // An error means that no sender is left to report a loss.
            let lost = state.wait_for(|state| state.losses > 0).await;
            lost.is_ok_and(|state| state.in_order)
        }
    }

    /// A cursor over the losses, for callers that go on after one.
    pub fn losses(&self) -> Losses {
        Losses {
            state: self.state.clone(),
            seen: 0,
            _open: self.channel.clone(),
        }
    }
}

/// A cursor over the losses of a connection, from the first one on: losses before the cursor was created, or while
/// its holder handled an earlier one, are not missed.
///
/// Keeps the connection from being closed by its last user.
#[derive(Clone, Debug)]
pub struct Losses {
    state: watch::Receiver<State>,
    seen: u64,
    _open: Channel,
}

impl Losses {
    /// Resolves when there is a loss that this cursor has not returned yet. Several losses count as one: a caller
    /// that queries the driver again sees the state after the last one. Dropping the future before it resolves loses
    /// nothing.
    pub async fn next(&mut self) {
        match self.state.wait_for(|state| state.losses > self.seen).await {
            Ok(state) => self.seen = state.losses,
            // Impossible: the open channel holds the sender.
            Err(_) => std::future::pending().await,
        }
    }

    /// Whether the driver closed the last connection gracefully.
    pub(super) fn in_order(&self) -> bool {
        self.state.borrow().in_order
    }
}

/// Connects, trying about once a second.
///
/// # Errors
/// The timeout passed.
pub async fn connect(address: &Address, options: Options) -> Result<Connection, ConnectError> {
    verbose!(5, address = %address, "Connecting");
    if let Address::Tcp(host) = address {
        tracing::warn!(
            address = %host,
            "Address of the CSI driver is taken for a network address; \
             a socket needs an absolute path, or unix:// and a path"
        );
    }
    let deadline = options.timeout.map(|timeout| Instant::now() + timeout);
    let last = Arc::new(Mutex::new(String::from("none finished")));
    let attempts = attempt_until_connected(address, &options, &last);
    tokio::select! {
        // The deadline first, so that no progress line follows it.
        biased;
        () = until(deadline) => Err(ConnectError::Timeout {
            address: address.clone(),
            last: read(&last),
        }),
        connection = attempts => Ok(connection),
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn read(text: &Mutex<String>) -> String {
    text.lock().map(|text| text.clone()).unwrap_or_default()
}

async fn attempt_until_connected(
    address: &Address,
    options: &Options,
    last: &Mutex<String>,
) -> Connection {
    let progress = async {
        let start = Instant::now() + PROGRESS_INTERVAL;
        let mut ticks = tokio::time::interval_at(start, PROGRESS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            tracing::info!(address = %address, reason = %read(last), "Still connecting");
        }
    };
    let attempts = async {
        loop {
            match tokio::time::timeout(ATTEMPT_TIMEOUT, attempt(address, options)).await {
                Ok(Ok(connection)) => return connection,
                Ok(Err(error)) => note(address, last, Chain(&error).to_string()),
                Err(_) => note(
                    address,
                    last,
                    "the driver accepts connections but does not answer".to_owned(),
                ),
            }
            let share = 0.8 + 0.4 * unit_random();
            tokio::time::sleep(RETRY_INTERVAL.mul_f64(share)).await;
        }
    };
    tokio::select! {
        connection = attempts => connection,
        () = progress => std::future::pending().await,
    }
}

/// Warns about a new reason; the same reason every second is logged at level 4 only.
fn note(address: &Address, last: &Mutex<String>, reason: String) {
    let Ok(mut last) = last.lock() else { return };
    if *last == reason {
        verbose!(4, address = %address, %reason, "Connection attempt failed");
    } else {
        tracing::warn!(address = %address, %reason, "Connection attempt failed");
    }
    *last = reason;
}

/// One attempt, without a time limit. It succeeds when the driver has sent its HTTP/2 preface: a process that accepts
/// and sends nothing is not ready.
///
/// # Errors
/// Nobody listens, or the listener is not a gRPC server.
pub async fn attempt(address: &Address, options: &Options) -> io::Result<Connection> {
    let (sender, mut state) = watch::channel(State::default());
    let dialer = Dialer {
        address: address.clone(),
        on_loss: options.on_loss,
        dialled: Arc::new(Mutex::new(Some(dial(address).await?))),
        fence: options.fence.clone(),
        state: sender,
    };
    let channel = endpoint().connect_with_connector(dialer).await;
    let channel = channel.map_err(io::Error::other)?;
    let greeted = state.wait_for(|state| state.connected || state.ends > 0);
    let closed = || io::Error::other("the driver closed the connection before speaking HTTP/2");
    if !greeted.await.map_err(|_| closed())?.connected {
        return Err(closed());
    }
    Ok(Connection {
        channel: Channel::new(channel, options.observer.clone(), state.clone()),
        state,
    })
}

/// Opens a separate connection for one call with a stream of responses, of which at most `window` bytes are buffered
/// unread: a slow reader blocks no other call. Neither logged nor measured.
///
/// # Errors
/// Nobody listens, or the listener is not a gRPC server.
pub async fn dedicated(address: &Address, window: u32) -> io::Result<tonic::transport::Channel> {
    let (state, _) = watch::channel(State::default());
    let dialer = Dialer {
        address: address.clone(),
        on_loss: OnLoss::Stop,
        dialled: Arc::new(Mutex::new(Some(dial(address).await?))),
        fence: Fence::default(),
        state,
    };
    let endpoint = endpoint()
        .initial_stream_window_size(window)
        .initial_connection_window_size(window);
    let channel = endpoint.connect_with_connector(dialer).await;
    channel.map_err(io::Error::other)
}

/// Largest header list accepted, as in Go's gRPC. Status messages are headers, and drivers put the output of whole
/// commands into them; hyper's limit is 16 KiB.
const HEADER_LIST: u32 = 16 << 20;

/// The endpoint, with the authority that kubelet and the Go sidecars send.
pub(super) fn endpoint() -> Endpoint {
    Endpoint::from_static("http://localhost").http2_max_header_list_size(HEADER_LIST)
}

async fn dial(address: &Address) -> io::Result<Socket> {
    match address {
        Address::Unix(path) => UnixStream::connect(path).await.map(Socket::Unix),
        Address::Tcp(host) => TcpStream::connect(host.as_str()).await.map(Socket::Tcp),
    }
}

/// Hands the socket that was dialled first to tonic, and later ones if reconnecting is allowed.
#[derive(Debug)]
struct Dialer {
    address: Address,
    on_loss: OnLoss,
    dialled: Arc<Mutex<Option<Socket>>>,
    fence: Fence,
    state: watch::Sender<State>,
}

impl tower_service::Service<Uri> for Dialer {
    type Response = TokioIo<Watched>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let first = self.dialled.lock().ok().and_then(|mut slot| slot.take());
        let (address, on_loss) = (self.address.clone(), self.on_loss);
        let (state, fence) = (self.state.clone(), self.fence.clone());
        Box::pin(async move {
            let socket = match (first, on_loss) {
                (Some(socket), _) => socket,
                (None, OnLoss::Reconnect) => dial(&address).await?,
                (None, OnLoss::Stop) => {
                    return Err(io::Error::other("connection to the CSI driver was lost"));
                }
            };
            Ok(TokioIo::new(Watched::new(socket, state, fence)))
        })
    }
}

#[cfg(test)]
mod tests;
