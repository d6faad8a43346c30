//! The connection to the CSI driver over its socket.
//!
//! `connection` keeps the socket and reports its loss, `observe` logs and measures every call,
//! `identity` makes the calls that every sidecar makes at start. Calls go through [`call`], so that
//! each has a deadline that the driver knows. `access_mode` translates Kubernetes' access modes to
//! CSI's.

pub mod access_mode;
mod address;
pub mod connection;
mod exchange;
mod goodbye;
pub mod identity;
pub mod loss;
pub mod observe;
#[cfg(test)]
mod pipe;
pub mod rpc;
mod stream;

use std::time::Duration;

use tokio::time::Instant;
use tonic::{Request, Response, Status};

pub use observe::Channel;

/// The time by which a call, or several calls together, must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// A deadline `timeout` from now. Zero has passed already: the driver is not called at all.
    pub fn after(timeout: Duration) -> Self {
        // About 30 years stand for "never": an Instant cannot go beyond what the clock holds.
        const FAR: Duration = Duration::from_secs(1 << 30);
        Self(Instant::now() + timeout.min(FAR))
    }

    /// Time that is left.
    pub fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    pub(crate) fn instant(self) -> Instant {
        self.0
    }
}

impl From<Duration> for Deadline {
    fn from(timeout: Duration) -> Self {
        Self::after(timeout)
    }
}

/// Marks a call made for a volume of a migrated in-tree driver: the metrics label `migrated`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated(pub bool);

impl Migrated {
    /// Wraps `message` in a request with this mark, for [`call_with`].
    pub fn mark<M>(self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        request.extensions_mut().insert(self);
        request
    }
}

/// Makes a call with a deadline, which is sent to the driver and enforced here as well.
///
/// The closure gets the request to send. Nothing is retried.
///
/// ```no_run
/// # async fn f(channel: sidecar::csi::Channel) -> Result<(), tonic::Status> {
/// use csi_proto::csi::{ProbeRequest, identity_client::IdentityClient};
/// let mut client = IdentityClient::new(channel);
/// let timeout = std::time::Duration::from_secs(1);
/// let answer = sidecar::csi::call(timeout, ProbeRequest {}, async |request| {
///     client.probe(request).await
/// })
/// .await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// The driver's status; `DeadlineExceeded` "context deadline exceeded" if it did not answer in
/// time; `Unavailable` if it cannot be reached.
pub async fn call<M, R>(
    deadline: impl Into<Deadline>,
    message: M,
    send: impl AsyncFnOnce(Request<M>) -> Result<Response<R>, Status>,
) -> Result<R, Status> {
    call_with(deadline, Request::new(message), send).await
}

/// Like [`call`], for a request that carries extensions, such as [`Migrated`].
///
/// # Errors
/// The same as those of [`call`].
pub async fn call_with<M, R>(
    deadline: impl Into<Deadline>,
    mut request: Request<M>,
    send: impl AsyncFnOnce(Request<M>) -> Result<Response<R>, Status>,
) -> Result<R, Status> {
    let deadline = deadline.into();
    request.set_timeout(deadline.remaining());
    request.extensions_mut().insert(deadline);
    Ok(send(request).await?.into_inner())
}
