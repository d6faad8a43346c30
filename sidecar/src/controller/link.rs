//! The connection to the driver: how it is met, and how it is followed through its restarts. One per
//! process; what a controller makes of the driver is its [`View`].
//!
//! A restart of the driver's container does not end this process: calls wait, the driver is probed
//! and asked anew, and work goes on. If an incompatible driver returns, the process exits with the reason.

mod ask;

use std::convert::Infallible;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;

use super::view::{Driver, Follower, View};
use crate::csi::connection::{self, Address, Connection, Losses, OnLoss, Options};
use crate::csi::identity::{
    self, ControllerCapabilities, GroupCapabilities, IdentityError, NodeCapabilities,
    PluginCapabilities,
};
use crate::csi::{Channel, loss};
use crate::election::Fence;
use crate::error::Chain;
use crate::metrics::{CsiOperations, OperationsConfig, Registry};
use crate::rpc_code::RpcError;
use crate::rt::Exit;

pub use ask::{Calls, Identity, Questions, Settings};

/// Pause between attempts to find the driver again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// What a driver says it can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Services it offers.
    pub plugin: PluginCapabilities,
    /// Calls of its controller.
    pub controller: ControllerCapabilities,
    /// Calls of its node service; empty if it was not asked.
    pub node: NodeCapabilities,
    /// Calls of its group controller; empty if it has none or was not asked.
    pub group: GroupCapabilities,
}

/// A driver that is ready and has told its name, but not yet what it can do.
#[derive(Debug)]
pub struct DriverHandshake {
    connection: Connection,
    settings: Settings,
    operations: CsiOperations,
    name: String,
}

impl DriverHandshake {
    /// As [`connect`](Self::connect), with calls counted in `registry`, where they have the label
    /// `migrated` if volumes of an in-tree plugin were moved to a driver of this name: such a driver is
    /// connected and probed once more, since its name is not known before.
    ///
    /// # Errors
    /// How the process ends.
    pub async fn connect_counted(
        settings: Settings,
        registry: &Registry,
        is_migrated: impl FnOnce(&str) -> bool,
    ) -> Result<Self, Exit> {
        let operations = CsiOperations::unregistered(OperationsConfig::default())?;
        let mut this = Self::connect(settings, &operations).await?;
        if is_migrated(&this.name) {
            this.operations = CsiOperations::unregistered(OperationsConfig {
                migrated: true,
                ..OperationsConfig::default()
            })?;
            this.connection = connect(&this.settings, &this.operations).await?;
        }
        this.operations.register(registry)?;
        Ok(this)
    }

    /// Connects, waits until the driver is ready and asks its name.
    ///
    /// # Errors
    /// How the process ends.
    pub async fn connect(settings: Settings, operations: &CsiOperations) -> Result<Self, Exit> {
        let connection = connect(&settings, operations).await?;
        let name = settings.name(connection.channel()).await;
        let name = name.map_err(|error| settings.refused(&error))?;
        Ok(Self {
            connection,
            settings,
            operations: operations.clone(),
            name,
        })
    }

    /// The driver's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Calls that are counted from now on have the driver's name.
    pub fn name_calls(&self) {
        self.operations.set_driver_name(&self.name);
    }

    /// Asks what the driver can do.
    ///
    /// # Errors
    /// How the process ends.
    pub async fn fetch_capabilities(self, questions: Questions) -> Result<Arc<Link>, Exit> {
        let channel = self.connection.channel();
        let answer = self.settings.capabilities(channel, &questions).await;
        let capabilities = answer.map_err(|error| self.settings.refused(&error))?;
        Ok(Arc::new(Link {
            recovered: Mutex::new(self.connection.losses()),
            connection: self.connection,
            settings: self.settings,
            operations: self.operations,
            questions,
            name: self.name,
            known: Mutex::new(Known {
                capabilities,
                views: Vec::new(),
            }),
            away: watch::Sender::new(false),
            following: tokio::sync::Mutex::default(),
        }))
    }

    /// Asks what the driver can do, for the only controller that wants to know.
    ///
    /// # Errors
    /// How the process ends.
    pub async fn into_view<D: Driver>(self, with: D::Settings) -> Result<Arc<View<D>>, Exit> {
        let link = self.fetch_capabilities(Questions::of::<D>(&with)).await?;
        let calls = link.settings.calls;
        View::new(link, calls, with, Fence::default())
    }
}

/// Connects and waits until the driver is ready.
async fn connect(settings: &Settings, operations: &CsiOperations) -> Result<Connection, Exit> {
    let address = Address::parse(&settings.address, OnLoss::Stop)?;
    let options = Options {
        observer: settings.calls.observer(operations),
        fence: settings.fence.clone(),
        ..Options::new(OnLoss::Reconnect)
    };
    let connection = connection::connect(&address, options).await?;
    identity::probe_until_ready(connection.channel(), settings.calls.timeout).await?;
    Ok(connection)
}

/// The connection to the driver.
pub struct Link {
    connection: Connection,
    settings: Settings,
    operations: CsiOperations,
    questions: Questions,
    name: String,
    known: Mutex<Known>,
    away: watch::Sender<bool>,
    /// Behind the last loss after which the driver was found again. Who follows may be dropped at
    /// any point, as at the end of a campaign, and the next one goes on from here.
    recovered: Mutex<Losses>,
    /// Held by the one who follows. Once the driver is given up, that is how it ended for all.
    following: tokio::sync::Mutex<Option<Exit>>,
}

/// What the driver said last, and who was told. One lock: nobody is told of the one and not of the next.
#[derive(Default)]
struct Known {
    capabilities: Capabilities,
    views: Vec<Weak<dyn Follower>>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    /// The driver's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Calls that are counted from now on have the driver's name.
    pub fn name_calls(&self) {
        self.operations.set_driver_name(&self.name);
    }

    /// A view of what the driver said last, which hears of it when the driver is back, before calls go
    /// on.
    ///
    /// # Errors
    /// As `make`.
    pub(super) fn admit<V: Follower + 'static>(
        &self,
        make: impl FnOnce(&Capabilities) -> Result<Arc<V>, Exit>,
    ) -> Result<Arc<V>, Exit> {
        let mut known = lock(&self.known);
        let view = make(&known.capabilities)?;
        let weak: Weak<V> = Arc::downgrade(&view);
        known.views.push(weak);
        Ok(view)
    }

    pub(super) fn operations(&self) -> &CsiOperations {
        &self.operations
    }

    /// Calls `wake` each time the driver can be asked again.
    pub async fn whenever_back(&self, wake: impl Fn()) -> Infallible {
        let mut away = self.away.subscribe();
        while away.changed().await.is_ok() {
            if !*away.borrow_and_update() {
                wake();
            }
        }
        // Cannot be: `self` holds the sender.
        std::future::pending().await
    }

    /// A channel for a call. While the driver restarts this waits, though not longer than `limit`.
    ///
    /// # Errors
    /// The driver is still away.
    pub async fn channel(&self, limit: Duration) -> Result<Channel, RpcError> {
        let mut away = self.away.subscribe();
        let back = timeout(limit, away.wait_for(|away| !away));
        match back.await {
            Ok(_) => Ok(self.connection.channel()),
            Err(_elapsed) => Err(RpcError {
                code: Code::Unavailable,
                message: "the connection to the CSI driver is lost".to_owned(),
            }),
        }
    }

    /// Follows the driver through its restarts; ends when it does not come back. What each controller
    /// makes of what came back is its view's to say.
    ///
    /// If several follow, one of them does it, and the next one when that is dropped. All of them hear
    /// how it ended.
    pub async fn follow(&self) -> Exit {
        self.follow_noting(Path::new(loss::TERMINATION_LOG)).await
    }

    pub(super) async fn follow_noting(&self, termination_log: &Path) -> Exit {
        let mut ended = self.following.lock().await;
        if let Some(exit) = &*ended {
            return exit.clone();
        }
        let exit = self.keep_up(termination_log).await;
        *ended = Some(exit.clone());
        exit
    }

    async fn keep_up(&self, termination_log: &Path) -> Exit {
        let mut losses = lock(&self.recovered).clone();
        let driver = self.name();
        loop {
            losses.next().await;
            self.away.send_replace(true);
            tracing::error!(
                driver,
                "Lost the connection to the CSI driver, waiting for it to come back"
            );
            let lost = Instant::now();
            let limit = self.settings.patience.unwrap_or(Duration::MAX);
            let Ok((name, capabilities)) = timeout(limit, self.ask_again()).await else {
                return loss::lost(&self.connection, termination_log).await;
            };
            self.tell(&name, capabilities);
            *lock(&self.recovered) = losses.clone();
            self.away.send_replace(false);
            let seconds = lost.elapsed().as_secs_f32();
            tracing::info!(driver, seconds, "The CSI driver is back");
        }
    }

    /// Tells all views what the driver came back as.
    fn tell(&self, name: &str, capabilities: Capabilities) {
        let mut known = lock(&self.known);
        known.views.retain(|view| {
            let view = view.upgrade();
            view.inspect(|view| view.learn(name, &capabilities))
                .is_some()
        });
        known.capabilities = capabilities;
    }

    /// Asks until there is an answer. Each call connects anew if it has to.
    async fn ask_again(&self) -> (String, Capabilities) {
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

    async fn ask(&self) -> Result<(String, Capabilities), String> {
        let text = |error: IdentityError| Chain(&error).to_string();
        let channel = self.connection.channel();
        match identity::probe(channel.clone(), self.settings.calls.timeout).await {
            Ok(true) => {}
            Ok(false) => return Err("CSI driver is not ready".to_owned()),
            Err(status) => return Err(text(IdentityError::Probe(status))),
        }
        let name = self.settings.name(channel.clone()).await;
        let capabilities = self.settings.capabilities(channel, &self.questions).await;
        Ok((name.map_err(text)?, capabilities.map_err(text)?))
    }
}

#[cfg(test)]
mod tests;
