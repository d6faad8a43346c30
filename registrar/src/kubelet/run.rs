//! Assembles the loop.

use std::path::PathBuf;
use std::sync::Arc;

use kube::Client;
use sidecar::metrics::{RegisterError, Registry};
use tokio::sync::{mpsc, watch};
use tracing::info;

use super::plan::keys::CSI_PLUGIN;
use super::work::api::Api;
use super::work::metrics::{CsiOperations, show_plugins};
use super::work::node::{NodeMissing, NodeWriter, UpdateError};
use super::work::plugin::{CsiPlugin, Handlers};
use super::work::reconciler::Reconciler;
use super::work::refresher::{self, Event, Known, Refresher};
use super::work::register::World;
use super::work::watcher::{WatchError, Watcher};

/// Configuration of the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Name of its Node.
    pub node: String,
    /// Directory of the registration sockets.
    pub registry: PathBuf,
    /// Whether to create the Node if it does not exist.
    pub register_node: bool,
}

/// Why the loop ended; without an error it runs for ever.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Watching the registry directory failed.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// The Node does not exist, or could not be created.
    #[error(transparent)]
    Node(#[from] NodeMissing),
    /// The CSINode could not be prepared, and without it no driver can be registered.
    #[error("cannot initialize the CSINode, giving up")]
    Initialize(#[source] UpdateError),
}

/// The loop of one node, ready to run.
pub struct Kubelet {
    config: Config,
    client: Client,
    handlers: Handlers,
    world: Arc<World>,
    writer: Arc<NodeWriter>,
    plugin: Arc<CsiPlugin>,
    operations: CsiOperations,
    known: Known,
    sender: mpsc::UnboundedSender<Event>,
    events: mpsc::UnboundedReceiver<Event>,
    initialized: watch::Sender<bool>,
}

impl Kubelet {
    /// A loop that writes through `client`, with metrics in `registry`. `random` returns numbers from 0 up to 1.
    ///
    /// # Errors
    /// The registry has its metrics already.
    pub fn new(
        config: Config,
        client: Client,
        registry: &Registry,
        random: fn() -> f64,
    ) -> Result<Self, RegisterError> {
        let world = Arc::<World>::default();
        show_plugins(registry, Arc::clone(&world))?;
        let operations = CsiOperations::new(registry)?;
        let api = Api::new(client.clone());
        let writer = Arc::new(NodeWriter::new(api, config.node.clone(), random));
        let (sender, events) = mpsc::unbounded_channel();
        let plugin = CsiPlugin::new(Arc::clone(&writer), operations.clone(), sender.clone());
        let plugin = Arc::new(plugin);
        let csi: Arc<CsiPlugin> = Arc::clone(&plugin);
        let mut handlers = Handlers::new();
        handlers.insert(CSI_PLUGIN.to_owned(), csi);
        let known = Known::default();
        let initialized = watch::Sender::new(false);
        Ok(Self {
            config,
            client,
            handlers,
            world,
            writer,
            plugin,
            operations,
            known,
            sender,
            events,
            initialized,
        })
    }

    /// The handlers by plugin type; callers may add some.
    pub fn handlers(&mut self) -> &mut Handlers {
        &mut self.handlers
    }

    /// The sockets.
    #[must_use]
    pub fn world(&self) -> Arc<World> {
        Arc::clone(&self.world)
    }

    /// The CSI drivers.
    #[must_use]
    pub fn plugin(&self) -> Arc<CsiPlugin> {
        Arc::clone(&self.plugin)
    }

    /// The durations of calls to drivers.
    #[must_use]
    pub fn operations(&self) -> CsiOperations {
        self.operations.clone()
    }

    /// The drivers and CSIDriver objects that the refresher knows.
    #[must_use]
    pub fn known(&self) -> Known {
        self.known.clone()
    }

    /// Whether the CSINode is ready. Until then kubelet's Node is not.
    #[must_use]
    pub fn initialized(&self) -> watch::Receiver<bool> {
        self.initialized.subscribe()
    }

    /// Runs until an error that cannot be retried. Dropping it leaves everything registered, as a kubelet that ends
    /// does.
    ///
    /// # Errors
    /// [`RunError`], always.
    pub async fn run(self) -> Result<(), RunError> {
        let watcher = Watcher::start(&self.config.registry, Arc::clone(&self.world))?;
        let reconciler = Reconciler::new(self.world, self.handlers);
        let refresher = Refresher::new(self.known, self.plugin);
        let initialize = async {
            self.writer.wait_for_api().await;
            self.writer.ensure_node(self.config.register_node).await?;
            self.writer
                .initialize()
                .await
                .map_err(RunError::Initialize)?;
            info!(node = self.config.node, "CSINode is initialized");
            self.initialized.send_replace(true);
            Ok::<(), RunError>(())
        };
        tokio::select! {
            error = watcher.run() => Err(error.into()),
            () = reconciler.run() => Ok(()),
            () = refresher.run(self.events) => Ok(()),
            never = refresher::watch(self.client, self.sender) => match never {},
            Err(error) = initialize => Err(error),
        }
    }
}
