//! The handshake with the driver: at the start of the process, and again after the driver was given up.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio::time::Instant;

use super::{Known, Link, Questions, Settings, lock, until_answered};
use crate::controller::view::{Driver, View};
use crate::csi::connection::{self, Address, Connection, OnLoss, Options};
use crate::csi::identity::{self, Plugin};
use crate::election::Fence;
use crate::metrics::{CsiOperations, OperationsConfig, Registry};
use crate::rt::Exit;

/// A driver that is ready and has reported its name, but not yet its capabilities.
#[derive(Debug)]
pub struct DriverHandshake {
    connection: Connection,
    settings: Settings,
    operations: CsiOperations,
    plugin: Plugin,
}

impl DriverHandshake {
    /// As [`connect`](Self::connect), with calls counted in `registry`, under the label `migrated` if volumes
    /// of an in-tree plugin moved to a driver of this name: such a driver is connected and probed a second
    /// time, because its name is not known before.
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
        if is_migrated(&this.plugin.name) {
            this.operations = CsiOperations::unregistered(OperationsConfig {
                migrated: true,
                ..OperationsConfig::default()
            })?;
            this.name_calls();
            this.connection = connect(&this.settings, &this.operations).await?;
        }
        this.operations.register(registry)?;
        Ok(this)
    }

    /// Connects, waits until the driver is ready and asks for its name.
    ///
    /// # Errors
    /// How the process ends.
    pub async fn connect(settings: Settings, operations: &CsiOperations) -> Result<Self, Exit> {
        let connection = connect(&settings, operations).await?;
        let plugin = settings.first(async || settings.plugin(connection.channel()).await);
        let plugin = plugin.await.map_err(|error| settings.refused(&error))?;
        Ok(Self {
            connection,
            settings,
            operations: operations.clone(),
            plugin,
        })
    }

    /// The driver's name.
    pub fn name(&self) -> &str {
        &self.plugin.name
    }

    /// Counts calls under the driver's name from now on.
    pub fn name_calls(&self) {
        self.operations.set_driver_name(&self.plugin.name);
    }

    /// Asks for the driver's capabilities.
    ///
    /// # Errors
    /// How the process ends.
    pub async fn fetch_capabilities(self, questions: Questions) -> Result<Arc<Link>, Exit> {
        let ask = async || {
            let channel = self.connection.channel();
            self.settings.capabilities(channel, &questions).await
        };
        let answer = self.settings.first(ask).await;
        let capabilities = answer.map_err(|error| self.settings.refused(&error))?;
        self.settings.info.set(&self.plugin, &capabilities);
        Ok(Arc::new(Link {
            recovered: Mutex::new(self.connection.losses()),
            connection: self.connection,
            settings: self.settings,
            operations: self.operations,
            questions,
            name: self.plugin.name,
            known: Mutex::new(Known {
                capabilities,
                views: Vec::new(),
            }),
            away: watch::Sender::new(false),
            turned: Mutex::new(Instant::now()),
            following: tokio::sync::Mutex::default(),
        }))
    }

    /// Asks for the driver's capabilities, for a process with one controller.
    ///
    /// # Errors
    /// How the process ends.
    pub async fn into_view<D: Driver>(self, with: D::Settings) -> Result<Arc<View<D>>, Exit> {
        let link = self.fetch_capabilities(Questions::of::<D>(&with)).await?;
        let calls = link.settings.calls;
        View::new(link, calls, with, (Fence::default(), None))
    }
}

/// Connects and waits until the driver is ready.
async fn connect(settings: &Settings, operations: &CsiOperations) -> Result<Connection, Exit> {
    let address = Address::parse(&settings.address, OnLoss::Stop)?;
    let options = Options::new(OnLoss::Reconnect);
    let options = Options {
        timeout: options.timeout.filter(|_| settings.is_last_word),
        observer: settings.calls.observer(None, operations),
        fence: settings.fence.clone(),
        ..options
    };
    let connection = connection::connect(&address, options).await?;
    let timeout = settings.calls.timeout;
    let probe = async || identity::probe_until_ready(connection.channel(), timeout).await;
    settings.first(probe).await?;
    Ok(connection)
}

impl Link {
    /// Reaches the same driver over another connection, which `fence` gates: requests queued on this one must
    /// not go out any more. Waits until the driver is ready.
    ///
    /// # Errors
    /// Another driver answers by now.
    pub async fn anew(&self, fence: Fence) -> Result<Arc<Self>, Exit> {
        let settings = Settings {
            fence,
            ..self.settings.clone()
        };
        let connection = connect(&settings, &self.operations).await?;
        let link = Self {
            recovered: Mutex::new(connection.losses()),
            connection,
            settings,
            operations: self.operations.clone(),
            questions: self.questions.clone(),
            name: self.name.clone(),
            known: Mutex::default(),
            away: watch::Sender::new(false),
            turned: Mutex::new(Instant::now()),
            following: tokio::sync::Mutex::default(),
        };
        let (plugin, capabilities) = until_answered(|| link.ask()).await;
        if plugin.name != self.name {
            let text = format!(
                "the CSI driver is {} now, it was {}",
                plugin.name, self.name
            );
            return Err(Exit::failure(1, text));
        }
        link.settings.info.set(&plugin, &capabilities);
        lock(&link.known).capabilities = capabilities;
        Ok(Arc::new(link))
    }
}
