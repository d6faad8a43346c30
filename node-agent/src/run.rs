//! Assembles the agent.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube::Client;
use registrar::kubelet;
use registrar::kubelet::plan::schedule::API_POLL_PERIOD;
use registrar::kubelet::run::Kubelet;
use registrar::kubelet::work::api;
use registrar::kubelet::work::exhausted::Attachments;
use registrar::kubelet::work::plugin::CsiPlugin;
use serde_json::Value;
use sidecar::error::Chain;
use sidecar::kube::api::Api;
use sidecar::kube::events::{Recorder, Source};
use sidecar::kube::key::Key;
use sidecar::metrics::{RegisterError, Registry};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tracing::warn;

use crate::plan::layout::Layout;
use crate::work::act::Actor;
use crate::work::metrics::StorageOperations;
use crate::work::reconciler::{Context, Reconciler};
use crate::work::watch::{Watched, Watches};

/// The agent's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Configuration of the registration loop.
    pub registration: kubelet::run::Config,
    /// `--kubelet-root-dir`
    pub root: PathBuf,
    /// Reports pods as running, and removes deleted ones.
    pub run_pods: bool,
    /// SELinux is enabled.
    pub se_linux: bool,
}

/// Why the agent cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Kubelet's directory is unusable.
    #[error("--kubelet-root-dir={}", path.display())]
    Root {
        /// The directory, or one inside.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A kubelet runs on the Node: both programs would mount and unmount the same volumes.
    #[error(
        "Node {node} is run by a kubelet ({version}); this program would take its place. \
         Use a Node without a kubelet: another --node-name, with --register-node a new one"
    )]
    Kubelet {
        /// The Node.
        node: String,
        /// `status.nodeInfo.kubeletVersion`
        version: String,
    },
    /// Two metrics have the same name.
    #[error(transparent)]
    Metrics(#[from] RegisterError),
    /// The registration loop failed.
    #[error(transparent)]
    Registration(#[from] kubelet::run::RunError),
    /// The Node's name is not the name of an object.
    #[error("--node-name={0}: not the name of an object")]
    Name(String),
}

/// The agent of one node, ready to run.
pub struct Agent {
    kubelet: Kubelet,
    reconciler: Reconciler,
    watches: Watches,
    client: Client,
    api: api::Api,
    node: String,
    events: sidecar::kube::events::Worker,
}

impl Agent {
    /// Creates an agent that uses `client` for the API server and reports metrics to `registry`.
    /// `random` returns numbers from 0 up to, but not including, 1.
    ///
    /// # Errors
    /// [`AgentError`]
    pub fn new(
        config: Config,
        client: Client,
        registry: &Registry,
        random: fn() -> f64,
    ) -> Result<Self, AgentError> {
        let node = config.registration.node.clone();
        let key = Key::new(None, &node).ok_or_else(|| AgentError::Name(node.clone()))?;
        let root = prepare(&config.root)?;
        let kubelet = Kubelet::new(config.registration, client.clone(), registry, random)?;
        let layout = Layout {
            root,
            node: node.clone(),
        };
        let api = api::Api::new(client.clone());
        let actor = Actor {
            objects: Api::new(client.clone()),
            kubelet: api.clone(),
            plugin: kubelet.plugin(),
            operations: kubelet.operations(),
            layout,
        };
        let attachments =
            Attachments::new(api.clone(), node.clone(), kubelet.plugin(), kubelet.known());
        let source = Source {
            component: "csi-node-agent".to_owned(),
            host: node.clone(),
        };
        let (events, worker) = Recorder::new(client.clone(), source);
        let changed = Arc::new(Notify::new());
        let (watched, watches) = Watched::new(&changed);
        let context = Context {
            actor,
            watched,
            changed,
            events,
            metrics: StorageOperations::new(registry)?,
            attachments: Arc::new(attachments),
            se_linux: config.se_linux,
            run_pods: config.run_pods,
            random,
        };
        Ok(Self {
            kubelet,
            reconciler: Reconciler::new(context, key),
            watches,
            client,
            api,
            node,
            events: worker,
        })
    }

    /// The CSI drivers of the node.
    #[must_use]
    pub fn plugin(&self) -> Arc<CsiPlugin> {
        self.kubelet.plugin()
    }

    /// Whether the CSINode is ready.
    #[must_use]
    pub fn initialized(&self) -> watch::Receiver<bool> {
        self.kubelet.initialized()
    }

    /// Runs until a failure that cannot be retried. Dropping the future leaves everything mounted and
    /// registered, as a kubelet does when it ends.
    ///
    /// # Errors
    /// [`AgentError`], always.
    pub async fn run(self) -> Result<(), AgentError> {
        refuse_kubelet(&self.api, &self.node).await?;
        let mut initialized = self.kubelet.initialized();
        let reconciler = self.reconciler;
        let volumes = async move {
            // The Node exists from now on.
            let is_ready = initialized.wait_for(|it| *it).await.is_ok();
            if is_ready {
                reconciler.run().await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            ended = self.kubelet.run() => Ok(ended?),
            () = volumes => Ok(()),
            never = self.watches.run(self.client, &self.node) => match never {},
            () = self.events.run() => Ok(()),
        }
    }
}

/// Refuses a Node whose status a kubelet has written, and leaves it untouched. Retries until the API
/// server answers.
async fn refuse_kubelet(api: &api::Api, node: &str) -> Result<(), AgentError> {
    let object = loop {
        match api.node(node).await {
            Ok(object) => break object,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => warn!(error = %Chain(&error), "Cannot see whose Node this is"),
        }
        sleep(API_POLL_PERIOD).await;
    };
    let version = object.pointer("/status/nodeInfo/kubeletVersion");
    match version.and_then(Value::as_str).filter(|it| !it.is_empty()) {
        None => Ok(()),
        Some(version) => Err(AgentError::Kubelet {
            node: node.to_owned(),
            version: version.to_owned(),
        }),
    }
}

/// Creates kubelet's directories. Returns the root without symbolic links, as the kernel's mount
/// table has it.
fn prepare(root: &Path) -> Result<PathBuf, AgentError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| AgentError::Root { path, source }
    };
    let make = |path: &Path| {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o750);
        builder.create(path).map_err(failed(path))
    };
    make(root)?;
    let root = root.canonicalize().map_err(failed(root))?;
    for folder in ["pods", "plugins"] {
        make(&root.join(folder))?;
    }
    Ok(root)
}
