//! Handles a plugin once its registrar has introduced it; for CSI, writes Node and CSINode.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use sidecar::error::Chain;
use sidecar::{rpc_code, verbose};
use tokio::sync::mpsc::UnboundedSender;
use tracing::error;

use super::driver::node_info;
use super::metrics::CsiOperations;
use super::node::NodeWriter;
use super::refresher::Event;
use crate::kubelet::plan::csinode::NodeInfo;
use crate::kubelet::plan::driver::{Driver, Drivers};
use crate::kubelet::plan::keys::clip;

/// Why a handler refuses or fails; the registrar gets the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PluginError(pub String);

/// Handles the plugins of one type (`PluginInfo.type`).
pub trait PluginHandler: Send + Sync {
    /// Whether the plugin may be registered.
    ///
    /// # Errors
    /// [`PluginError`] with the reason.
    fn validate(&self, name: &str, versions: &[String]) -> Result<(), PluginError>;

    /// Registers the plugin, and leaves nothing behind if that fails.
    fn register<'a>(
        &'a self,
        name: &'a str,
        endpoint: &'a str,
        versions: &'a [String],
    ) -> BoxFuture<'a, Result<(), PluginError>>;

    /// Undoes the registration. Failures are logged and not retried, as in kubelet.
    fn deregister<'a>(&'a self, name: &'a str, endpoint: &'a str) -> BoxFuture<'a, ()>;
}

/// Handlers by plugin type.
pub type Handlers = BTreeMap<String, Arc<dyn PluginHandler>>;

/// The CSI drivers of this node, with everything that registering them takes.
pub struct CsiPlugin {
    drivers: Mutex<Drivers>,
    writer: Arc<NodeWriter>,
    operations: CsiOperations,
    /// Gets an event for every driver that comes or goes.
    refresher: UnboundedSender<Event>,
}

impl CsiPlugin {
    /// A plugin without drivers.
    #[must_use]
    pub fn new(
        writer: Arc<NodeWriter>,
        operations: CsiOperations,
        refresher: UnboundedSender<Event>,
    ) -> Self {
        Self {
            drivers: Mutex::default(),
            writer,
            operations,
            refresher,
        }
    }

    /// The registered driver called `name`.
    #[must_use]
    pub fn driver(&self, name: &str) -> Option<Driver> {
        self.drivers().driver(name).cloned()
    }

    /// Refreshes the limit of a registered driver, and updates the CSINode, but not the Node.
    ///
    /// # Errors
    /// [`PluginError`]
    pub async fn refresh(&self, name: &str) -> Result<(), PluginError> {
        let driver = self.driver(name);
        let driver = driver.ok_or_else(|| PluginError("driver is not registered".to_owned()))?;
        let info = self.ask(name, &driver.endpoint).await?;
        if info.node_id.is_empty() {
            return Err(PluginError(
                "the driver reported an empty node id".to_owned(),
            ));
        }
        if self.driver(name).is_none() {
            return Err(PluginError("driver was deregistered meanwhile".to_owned()));
        }
        let written = self.writer.refresh(name, &info).await;
        written.map_err(|error| PluginError(Chain(&error).to_string()))
    }

    async fn ask(&self, name: &str, endpoint: &str) -> Result<NodeInfo, PluginError> {
        node_info(name, endpoint, &self.operations)
            .await
            .map_err(|status| PluginError(clip(&rpc_code::text(&status)).to_owned()))
    }

    async fn install(&self, name: &str, endpoint: &str) -> Result<(), PluginError> {
        let info = self.ask(name, endpoint).await?;
        verbose!(
            4,
            driver = clip(name),
            node_id = clip(&info.node_id),
            "driver answered"
        );
        let installed = self.writer.install(name, &info).await;
        installed.map_err(|error| PluginError(Chain(&error).to_string()))
    }

    /// Removes the driver here and on the API server. The refresher gets its event first, or else a running refresh
    /// could add the driver again.
    async fn remove(&self, name: &str) {
        self.drivers().remove(name);
        self.notify_refresher(name, false);
        if let Err(error) = self.writer.uninstall(name).await {
            error!(driver = clip(name), error = %Chain(&error), "cannot remove the driver's entries");
        }
    }

    fn drivers(&self) -> MutexGuard<'_, Drivers> {
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify_refresher(&self, name: &str, registered: bool) {
        // Without a refresher no limit is refreshed.
        let _ = self.refresher.send(Event::Driver {
            name: name.to_owned(),
            registered,
        });
    }
}

impl PluginHandler for CsiPlugin {
    fn validate(&self, name: &str, versions: &[String]) -> Result<(), PluginError> {
        let checked = self.drivers().check(name, versions);
        checked
            .map(drop)
            .map_err(|rejected| PluginError(rejected.to_string()))
    }

    fn register<'a>(
        &'a self,
        name: &'a str,
        endpoint: &'a str,
        versions: &'a [String],
    ) -> BoxFuture<'a, Result<(), PluginError>> {
        Box::pin(async move {
            {
                // Two sockets of one driver may have passed the validation at the same time.
                let mut drivers = self.drivers();
                let version = drivers
                    .check(name, versions)
                    .map_err(|rejected| PluginError(rejected.to_string()))?;
                drivers.set(
                    name.to_owned(),
                    Driver {
                        endpoint: endpoint.to_owned(),
                        version,
                    },
                );
            }
            if let Err(error) = self.install(name, endpoint).await {
                self.remove(name).await;
                return Err(error);
            }
            self.notify_refresher(name, true);
            Ok(())
        })
    }

    fn deregister<'a>(&'a self, name: &'a str, _endpoint: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(self.remove(name))
    }
}
