//! The connection to the driver, and its answers to Probe.
//!
//! Upstream connects anew for every health request, and so notices a driver that has died or was replaced. Here one
//! connection is kept, and each request first checks whether it still leads where a new one would: see
//! [`SharedConnection::leads_to`].

use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use csi_proto::csi::methods;
use sidecar::csi::Deadline;
use sidecar::csi::connection::{self, Address, OnLoss, Options};
use sidecar::csi::identity::{self, IdentityError};
use sidecar::csi::observe::Observer;
use sidecar::election::Fence;
use sidecar::metrics::CsiOperations;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use tonic::Status;

use crate::connection::{Established, MUTE, Outcome, RETRY_INTERVAL, SharedConnection};
use crate::socket::SocketIdentity;

/// Interval of the log line that the driver has not returned its name yet.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Why the program cannot start.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The connection failed.
    #[error("--csi-address={0}: no connection to the driver")]
    Connect(Address, #[source] connection::ConnectError),
    /// The driver does not return its name.
    #[error("cannot get the name of the driver at --csi-address={0}")]
    Name(Address, #[source] IdentityError),
}

/// Result of a health request.
#[derive(Debug, Clone)]
pub enum Health {
    /// The driver is ready.
    Ready,
    /// The driver has answered that it is not ready.
    NotReady,
    /// The Probe failed.
    Failed(Status),
    /// No connection before the deadline; the error of the last attempt.
    Unreachable(String),
}

/// The driver behind its socket.
#[derive(Debug)]
pub struct Driver {
    address: Address,
    options: Options,
    kept: Mutex<Option<SharedConnection>>,
}

impl Driver {
    /// A driver that is not connected yet; its calls are measured by `operations`.
    pub fn new(address: Address, operations: CsiOperations) -> Self {
        let options = Options {
            timeout: None,
            // A lost connection is replaced only after a check of the address.
            on_loss: OnLoss::Stop,
            observer: Observer {
                methods: &[methods::IDENTITY],
                response_limit: None,
                controller: None,
                operations: Some(operations),
            },
            // This program has no leader election.
            fence: Fence::default(),
        };
        Self {
            address,
            options,
            kept: Mutex::new(None),
        }
    }

    /// The same driver beside controllers; `name` appears in the log of its calls.
    #[must_use]
    pub fn among_controllers(mut self, name: &'static str) -> Self {
        self.options.observer.controller = Some(name);
        self
    }

    /// Waits for the driver without limit, and then calls GetPluginInfo, also without a time limit: a program that
    /// ended here would hide behind its own restarts that the driver hangs.
    ///
    /// # Errors
    /// The driver's answer is an error, or contains no name.
    pub async fn name(&self) -> Result<String, DriverError> {
        let connection = connection::connect(&self.address, self.options.clone()).await;
        let connection =
            connection.map_err(|source| DriverError::Connect(self.address.clone(), source))?;
        let answer = tokio::select! {
            answer = identity::driver_name(connection.channel(), Duration::MAX) => answer,
            never = self.remark_on_silence() => match never {},
        };
        // Requests make connections of their own, whose socket is known.
        answer.map_err(|source| DriverError::Name(self.address.clone(), source))
    }

    async fn remark_on_silence(&self) -> Infallible {
        let start = Instant::now() + PROGRESS_INTERVAL;
        let mut ticks = tokio::time::interval_at(start, PROGRESS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let address = &self.address;
            tracing::warn!(%address, "Still waiting for the driver's name");
        }
    }

    /// Probes the driver, connecting first where necessary; both within `timeout`.
    pub async fn probe(&self, timeout: Duration) -> Health {
        let begun = Instant::now();
        let deadline = Deadline::after(timeout);
        let established = match self.reach(deadline).await {
            Ok(established) => established,
            Err(reason) => return Health::Unreachable(reason),
        };
        let health = ask(&established, deadline).await;
        // If a connection from before the request ends, that shows nothing about the process that listens now. Its end
        // may not have been read yet, or comes in the middle of the Probe.
        let is_stale = established.since < begun && established.is_lost();
        if is_stale && matches!(health, Health::Failed(_)) {
            let again = tokio::time::timeout(deadline.remaining(), self.connect()).await;
            if let Ok(Ok(established)) = again {
                return ask(&established, deadline).await;
            }
        }
        health
    }

    /// Retries until there is a connection.
    ///
    /// # Errors
    /// The deadline has passed; the error of the last attempt.
    async fn reach(&self, deadline: Deadline) -> Outcome {
        let mut reason = MUTE.to_owned();
        while !deadline.remaining().is_zero() {
            match tokio::time::timeout(deadline.remaining(), self.connect()).await {
                Ok(Ok(established)) => return Ok(established),
                Ok(Err(failure)) => reason = failure,
                Err(_) => break,
            }
            tokio::time::sleep(RETRY_INTERVAL.min(deadline.remaining())).await;
        }
        Err(reason)
    }

    /// The kept connection, or the outcome of one attempt to make one.
    async fn connect(&self) -> Outcome {
        // Before the attempt: if the file is replaced in between, the next request takes the connection for an old one
        // and makes another, which costs nothing else.
        let identity = SocketIdentity::at(&self.address).map_err(|error| error.to_string())?;
        let mut outcome = self.outcome_of(identity);
        let outcome = outcome.wait_for(Option::is_some).await;
        let outcome = outcome.ok().and_then(|outcome| (*outcome).clone());
        outcome.unwrap_or_else(|| Err("the socket was replaced during the attempt".to_owned()))
    }

    fn outcome_of(&self, identity: SocketIdentity) -> watch::Receiver<Option<Outcome>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let usable = kept
            .take()
            .filter(|kept| kept.leads_to(identity, Instant::now()));
        let shared = usable
            .unwrap_or_else(|| SharedConnection::begin(identity, &self.address, &self.options));
        kept.insert(shared).outcome()
    }
}

async fn ask(established: &Established, deadline: Deadline) -> Health {
    match identity::probe(established.connection.channel(), deadline).await {
        Ok(true) => Health::Ready,
        Ok(false) => Health::NotReady,
        Err(status) => Health::Failed(status),
    }
}

#[cfg(test)]
mod tests;
