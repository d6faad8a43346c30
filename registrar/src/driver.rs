//! The driver behind its socket: its name at the start, and whether it is the same driver after a restart.

use std::time::Duration;

use sidecar::csi::connection::{self, Address, ConnectError, Connection, OnLoss, Options};
use sidecar::csi::identity::{self, IdentityError};
use sidecar::csi::loss;
use sidecar::error::Chain;
use tokio::time::Instant;

/// Pause between attempts to find the driver again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Why the driver cannot be registered, or cannot stay so.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// Not a usable address; the source names the flag.
    #[error(transparent)]
    Address(#[from] connection::AddressError),
    /// The driver does not listen.
    #[error(
        "--csi-address={address}: no driver there; is its container running, and is the directory of \
         its socket mounted into this container as well?"
    )]
    Connect {
        /// The address as given.
        address: String,
        /// Errors of all attempts.
        source: ConnectError,
    },
    /// The driver does not return its name.
    #[error("cannot get the name of the driver at --csi-address={address} (--timeout={timeout:?})")]
    Name {
        /// The address as given.
        address: String,
        /// Time limit of the call.
        timeout: Duration,
        /// Error of the call.
        source: IdentityError,
    },
    /// Another driver has taken the socket.
    #[error(
        "the driver at --csi-address={address} changed its name from {registered:?} to {now:?}: exiting, so \
         that the restarted registrar registers the new name"
    )]
    Renamed {
        /// The address as given.
        address: String,
        /// The name that is registered.
        registered: String,
        /// The name of the driver that is there now.
        now: String,
    },
}

/// A driver whose name is known.
#[derive(Debug)]
pub struct Driver {
    address: String,
    timeout: Duration,
    connection: Connection,
    name: String,
}

impl Driver {
    /// Connects, which may take thirty seconds, and gets the driver's name with a single call, within `timeout`.
    ///
    /// # Errors
    /// Connecting or the call fails.
    pub async fn connect(address: &str, timeout: Duration) -> Result<Self, DriverError> {
        let parsed = Address::parse(address, OnLoss::Reconnect)?;
        let connection = connection::connect(&parsed, Options::new(OnLoss::Reconnect)).await;
        let connection = connection.map_err(|source| DriverError::Connect {
            address: address.to_owned(),
            source,
        })?;
        let ask = || identity::driver_name(connection.channel(), timeout);
        let name = identity::unless_it_stood_still(timeout, ask).await;
        let name = name.map_err(|source| DriverError::Name {
            address: address.to_owned(),
            timeout,
            source,
        })?;
        Ok(Self {
            address: address.to_owned(),
            timeout,
            connection,
            name,
        })
    }

    /// The driver's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Follows the driver through its restarts; resolves once a driver with another name has come back.
    pub async fn renamed(&self) -> DriverError {
        let mut losses = self.connection.losses();
        loop {
            losses.next().await;
            let lost = Instant::now();
            let asking = identity::driver_name(self.connection.channel(), self.timeout);
            let at_once = loss::back_at_once(&losses, asking).await;
            let is_logged = at_once.is_none();
            let now = match at_once {
                Some(name) => name,
                None => {
                    tracing::error!(driver = self.name, "Lost the connection to the driver");
                    self.name_after_restart().await
                }
            };
            if now != self.name {
                return DriverError::Renamed {
                    address: self.address.clone(),
                    registered: self.name.clone(),
                    now,
                };
            }
            if is_logged {
                let seconds = lost.elapsed().as_secs_f32();
                tracing::info!(driver = self.name, seconds, "The driver is back");
            }
            // Without a pause, a driver that drops every connection would get calls in a tight loop.
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Calls the driver until it answers. Each call connects anew if it has to.
    async fn name_after_restart(&self) -> String {
        let mut last = String::new();
        loop {
            match identity::driver_name(self.connection.channel(), self.timeout).await {
                Ok(name) => return name,
                Err(error) => {
                    let reason = Chain(&error).to_string();
                    if reason != last {
                        tracing::warn!(driver = self.name, %reason, "The driver does not answer");
                    }
                    last = reason;
                }
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
}
