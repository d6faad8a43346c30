//! One connection to the driver, from the attempt to make it until it cannot be used any more.

use std::time::Duration;

use sidecar::csi::connection::{self, Address, Connection, Options};
use sidecar::error::Chain;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::socket::SocketIdentity;

/// Pause between attempts.
pub const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// Age at which a connection is not used any more, so that the next health request makes a new one. A driver can answer
/// on its connections and accept no new ones, for example when it is out of file descriptors; the limit bounds how long
/// that goes unnoticed.
pub const MAX_AGE: Duration = Duration::from_secs(60);
/// Limit of one attempt to connect. The value is that of Go's gRPC.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(20);
/// Why an attempt has not ended.
pub const MUTE: &str = "the driver accepts connections but does not answer";

/// An attempt to connect to the process behind an address, and the connection that results from it.
///
/// The attempt belongs to no single request: requests that come meanwhile wait for it as well, so that a crowd of them
/// makes one connection, even to a process that accepts it and never answers.
#[derive(Debug)]
pub struct SharedConnection {
    identity: SocketIdentity,
    begun: Instant,
    outcome: watch::Receiver<Option<Outcome>>,
    task: JoinHandle<()>,
}

/// The connection, or why there is none.
pub type Outcome = Result<Established, String>;

/// A connection and its age.
#[derive(Debug, Clone)]
pub struct Established {
    /// The connection.
    pub connection: Connection,
    /// Time when the connection was made.
    pub since: Instant,
}

impl Established {
    /// Whether the driver has ended it.
    pub fn is_lost(&self) -> bool {
        !self.connection.state().borrow().connected
    }
}

impl SharedConnection {
    /// Starts an attempt to connect to `address`, which had this `identity` just before.
    pub fn begin(identity: SocketIdentity, address: &Address, options: &Options) -> Self {
        let (sender, outcome) = watch::channel(None);
        let (address, options) = (address.clone(), options.clone());
        let task = tokio::spawn(async move {
            let attempt = connection::attempt(&address, &options);
            let attempt = match tokio::time::timeout(ATTEMPT_TIMEOUT, attempt).await {
                Ok(attempt) => attempt.map_err(|error| Chain(&error).to_string()),
                Err(_) => Err(MUTE.to_owned()),
            };
            let lost = attempt.as_ref().ok().map(Connection::lost);
            sender.send_replace(Some(attempt.map(|connection| Established {
                connection,
                since: Instant::now(),
            })));
            // A connection that the driver ends in good order is replaced when it is needed; only if that fails, it is
            // logged.
            if let Some(lost) = lost
                && !lost.await
            {
                tracing::error!("Lost the connection to the driver");
            }
        });
        Self {
            identity,
            begun: Instant::now(),
            outcome,
            task,
        }
    }

    /// The outcome of the attempt.
    pub fn outcome(&self) -> watch::Receiver<Option<Outcome>> {
        self.outcome.clone()
    }

    /// Whether a new connection would lead to the same process, as far as that can be told without making one.
    pub fn leads_to(&self, identity: SocketIdentity, now: Instant) -> bool {
        let since = |moment| now.saturating_duration_since(moment);
        self.identity == identity
            && match &*self.outcome.borrow() {
                None => true,
                Some(Ok(established)) => {
                    !established.is_lost() && since(established.since) < MAX_AGE
                }
                Some(Err(_)) => since(self.begun) < RETRY_INTERVAL,
            }
    }
}

/// Requests that still wait for the attempt turn to the next one. Running calls keep the connection until they end.
impl Drop for SharedConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}
