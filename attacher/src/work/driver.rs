//! The driver behind its socket: how it is met, and how it is followed through its restarts.
//!
//! A restart of the driver's container does not end this process: calls wait, the driver is probed
//! and asked anew, and work goes on. What it must not come back as ends the process with one line.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use csi_proto::csi::methods;
use sidecar::csi::connection::{self, Address, Connection, OnLoss, Options};
use sidecar::csi::identity::{self, IdentityError};
use sidecar::csi::observe::Observer;
use sidecar::csi::{Channel, Deadline};
use sidecar::error::Chain;
use sidecar::metrics::CsiOperations;
use sidecar::names;
use sidecar::rt::Exit;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;

use crate::plan::Driver;
use crate::plan::driver::{Abilities, accept};
use crate::plan::outcome::RpcError;

/// For `GetPluginInfo`, and for both capability calls together, whatever `--timeout` says.
const IDENTITY_TIMEOUT: Duration = Duration::from_secs(1);

/// Pause between attempts to find the driver again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How a driver is talked to.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `--csi-address`
    pub address: String,
    /// `--timeout`
    pub timeout: Duration,
    /// `--max-grpc-log-length`
    pub response_limit: Option<usize>,
    /// `--default-fstype`
    pub default_fs_type: String,
    /// Feature gate `MutableCSINodeAllocatableCount`
    pub error_codes: bool,
    /// How long the driver may be away; `None` is for ever. With other replicas waiting for the
    /// lease, a leader without driver must make room.
    pub patience: Option<Duration>,
}

/// A driver that is ready and has told its name, but not yet what it can do.
pub struct Met {
    connection: Connection,
    settings: Settings,
    name: String,
}

impl Met {
    /// Connects, waits until the driver is ready and asks its name.
    ///
    /// # Errors
    /// How the process ends.
    pub async fn meet(settings: Settings, operations: &CsiOperations) -> Result<Self, Exit> {
        let address = Address::parse(&settings.address, OnLoss::Stop)?;
        let options = Options {
            observer: Observer {
                methods: &[methods::IDENTITY, methods::CONTROLLER],
                response_limit: settings.response_limit,
                operations: Some(operations.clone()),
            },
            ..Options::new(OnLoss::Reconnect)
        };
        let connection = connection::connect(&address, options).await?;
        identity::probe_until_ready(connection.channel(), settings.timeout).await?;
        let name = identity::driver_name(connection.channel(), IDENTITY_TIMEOUT).await?;
        Ok(Self {
            connection,
            settings,
            name,
        })
    }

    /// The driver's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks what the driver can do.
    ///
    /// # Errors
    /// How the process ends.
    pub async fn know(self) -> Result<Arc<DriverLink>, Exit> {
        let abilities = abilities(self.connection.channel()).await?;
        let driver = Driver {
            finalizer: names::finalizer(&self.name),
            name: self.name,
            abilities,
            default_fs_type: self.settings.default_fs_type.clone(),
            error_codes: self.settings.error_codes,
        };
        Ok(Arc::new(DriverLink {
            connection: self.connection,
            settings: self.settings,
            current: Mutex::new(Arc::new(driver)),
            away: watch::Sender::new(false),
        }))
    }
}

async fn abilities(channel: Channel) -> Result<Abilities, IdentityError> {
    use csi_proto::csi::plugin_capability::service::Type;
    let deadline = Deadline::after(IDENTITY_TIMEOUT);
    let plugin = identity::plugin_capabilities(channel.clone(), deadline).await?;
    if !plugin.has(Type::ControllerService) {
        return Ok(Abilities::default());
    }
    let controller = identity::controller_capabilities(channel, deadline).await?;
    Ok(Abilities::new(
        |kind| plugin.has(kind),
        |kind| controller.has(kind),
    ))
}

/// The driver, as it is known now.
pub struct DriverLink {
    connection: Connection,
    settings: Settings,
    current: Mutex<Arc<Driver>>,
    away: watch::Sender<bool>,
}

impl DriverLink {
    /// What is known of the driver.
    #[must_use]
    pub fn current(&self) -> Arc<Driver> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current)
    }

    /// `--timeout`.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    /// A channel for a call. While the driver restarts this waits, though not longer than the call
    /// itself could have taken.
    ///
    /// # Errors
    /// The driver is still away.
    pub async fn channel(&self) -> Result<Channel, RpcError> {
        let mut away = self.away.subscribe();
        let back = timeout(self.settings.timeout, away.wait_for(|away| !away));
        match back.await {
            Ok(_) => Ok(self.connection.channel()),
            Err(_elapsed) => Err(RpcError {
                code: Code::Unavailable,
                message: "the connection to the CSI driver is lost".to_owned(),
            }),
        }
    }

    /// Follows the driver through its restarts; ends when it came back as something else, or not.
    pub async fn follow(&self) -> Exit {
        let mut losses = self.connection.losses();
        loop {
            losses.next().await;
            self.away.send_replace(true);
            let name = self.current().name.clone();
            tracing::error!(
                driver = name,
                "Lost the connection to the CSI driver, waiting for it to come back"
            );
            let lost = Instant::now();
            let limit = self.settings.patience.unwrap_or(Duration::MAX);
            let Ok((now, abilities)) = timeout(limit, self.ask_again()).await else {
                return sidecar::csi::loss::lost(
                    &self.connection,
                    std::path::Path::new(sidecar::csi::loss::TERMINATION_LOG),
                )
                .await;
            };
            if let Err(unacceptable) = accept(&self.current(), &now, abilities) {
                return Exit::failure(1, unacceptable);
            }
            self.learn(abilities);
            self.away.send_replace(false);
            let seconds = lost.elapsed().as_secs_f32();
            tracing::info!(driver = name, seconds, "The CSI driver is back");
        }
    }

    fn learn(&self, abilities: Abilities) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.abilities != abilities {
            let (before, now) = (current.abilities, abilities);
            tracing::info!(?before, ?now, "The CSI driver's capabilities changed");
            let driver = Driver {
                abilities,
                ..(**current).clone()
            };
            *current = Arc::new(driver);
        }
    }

    /// Asks until there is an answer. Each call connects anew if it has to.
    async fn ask_again(&self) -> (String, Abilities) {
        let mut last = String::new();
        loop {
            match self.ask().await {
                Ok(answer) => return answer,
                Err(reason) if reason == last => {}
                Err(reason) => {
                    tracing::warn!(reason, "The CSI driver is not back yet");
                    last = reason;
                }
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    async fn ask(&self) -> Result<(String, Abilities), String> {
        let text = |error: IdentityError| Chain(&error).to_string();
        let channel = self.connection.channel();
        match identity::probe(channel.clone(), self.settings.timeout).await {
            Ok(true) => {}
            Ok(false) => return Err("CSI driver is not ready".to_owned()),
            Err(status) => return Err(text(IdentityError::Probe(status))),
        }
        let name = identity::driver_name(channel.clone(), IDENTITY_TIMEOUT).await;
        let abilities = abilities(channel).await;
        Ok((name.map_err(text)?, abilities.map_err(text)?))
    }
}
