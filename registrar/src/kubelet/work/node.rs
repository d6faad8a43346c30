//! Reads, changes and writes Node and CSINode, one driver at a time, with a few attempts each.
//!
//! The decisions are in [`crate::kubelet::plan`]; each attempt starts with a fresh GET, so that a conflict with another
//! writer resolves itself.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::TryFutureExt as _;
use serde_json::Value;
use sidecar::error::Chain;
use tracing::{info, warn};

use super::api::{Api, ApiError};
use crate::kubelet::plan::csinode::{self, Limit, NodeInfo, Owner, Step};
use crate::kubelet::plan::keys::clip;
use crate::kubelet::plan::node::{self, NodeError};
use crate::kubelet::plan::schedule::{
    API_POLL_PERIOD, Attempts, INITIALIZE_ATTEMPTS, WRITE_ATTEMPTS,
};

/// Why one attempt failed.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    /// A request to the API server failed.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The Node contradicts the driver's data.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The CSINode belonged to an earlier Node of the same name, and was deleted.
    #[error("CSINode {0} belonged to another Node object and was deleted")]
    Foreign(String),
    /// The Node has no uid.
    #[error("Node {0} has no uid")]
    NoUid(String),
}

/// Why an update was given up. The text contains the errors of all attempts.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// Updating the Node failed.
    #[error("error updating Node {node}: {attempts}")]
    Node {
        /// Name of the Node.
        node: String,
        /// The errors of all attempts.
        attempts: String,
    },
    /// Updating the CSINode failed.
    #[error("error updating CSINode {node}: {attempts}")]
    CsiNode {
        /// Name of the CSINode.
        node: String,
        /// The errors of all attempts.
        attempts: String,
    },
    /// The driver's answer is invalid; no attempt was made.
    #[error(transparent)]
    Refused(#[from] NodeError),
}

/// The Node does not exist. A kubelet would have created it.
#[derive(Debug, thiserror::Error)]
pub enum NodeMissing {
    /// The Node does not exist, and `--register-node` is not set.
    #[error(
        "Node {0} does not exist: create it, correct --node-name, or start with --register-node"
    )]
    Absent(String),
    /// Creating the Node failed.
    #[error("--register-node: cannot create Node {node}")]
    Refused {
        /// Name of the Node.
        node: String,
        /// The error.
        source: ApiError,
    },
}

/// The writer of one node's objects.
pub struct NodeWriter {
    api: Api,
    node: String,
    /// The Node's UID as last read. Kubelet reads it once, at start; reading it with every GET of the Node keeps a
    /// re-created Node from being compared with the UID of its predecessor.
    uid: Mutex<Option<String>>,
    /// Held for a whole read-modify-write.
    update_lock: tokio::sync::Mutex<()>,
    /// Returns a number from 0 up to 1.
    random: fn() -> f64,
}

impl NodeWriter {
    /// A writer for the Node and CSINode called `node`.
    #[must_use]
    pub fn new(api: Api, node: String, random: fn() -> f64) -> Self {
        let update_lock = tokio::sync::Mutex::new(());
        Self {
            api,
            node,
            uid: Mutex::new(None),
            update_lock,
            random,
        }
    }

    /// Adds the driver to Node and CSINode.
    ///
    /// # Errors
    /// [`UpdateError`]. The Node may have been written although the CSINode was not; the caller rolls back with
    /// [`Self::uninstall`].
    pub async fn install(&self, driver: &str, info: &NodeInfo) -> Result<(), UpdateError> {
        if info.node_id.is_empty() {
            return Err(NodeError::NoNodeId.into());
        }
        self.attempts(WRITE_ATTEMPTS, || {
            self.install_on_node(driver, info).map_err(text)
        })
        .await
        .map_err(|attempts| UpdateError::Node {
            node: self.node.clone(),
            attempts,
        })?;
        self.refresh(driver, info).await
    }

    /// Updates the driver's entry of the CSINode, but not the Node.
    ///
    /// # Errors
    /// [`UpdateError::CsiNode`]
    pub async fn refresh(&self, driver: &str, info: &NodeInfo) -> Result<(), UpdateError> {
        match Limit::of(info.max_volumes) {
            Limit::None | Limit::Exact(_) => {}
            Limit::Capped => warn!(
                driver = clip(driver),
                max_volumes_per_node = info.max_volumes,
                "driver reports more volumes than a CSINode can hold; writing the largest number"
            ),
            Limit::Negative => tracing::error!(
                driver = clip(driver),
                max_volumes_per_node = info.max_volumes,
                "driver reports a negative volume limit; writing none"
            ),
        }
        self.attempts(WRITE_ATTEMPTS, || {
            self.install_on_csinode(driver, info).map_err(text)
        })
        .await
        .map_err(|attempts| self.csinode_error(attempts))
    }

    /// Removes the driver from the CSINode and then from the Node.
    ///
    /// # Errors
    /// [`UpdateError`]; after an error with the CSINode the Node is not touched.
    pub async fn uninstall(&self, driver: &str) -> Result<(), UpdateError> {
        self.attempts(WRITE_ATTEMPTS, || {
            self.uninstall_from_csinode(driver).map_err(text)
        })
        .await
        .map_err(|attempts| self.csinode_error(attempts))?;
        self.attempts(WRITE_ATTEMPTS, || {
            self.uninstall_from_node(driver).map_err(text)
        })
        .await
        .map_err(|attempts| UpdateError::Node {
            node: self.node.clone(),
            attempts,
        })
    }

    /// Waits until the API server answers, without limit.
    pub async fn wait_for_api(&self) {
        let mut logged = String::new();
        while let Err(error) = self.api.cached_csinode(&self.node).await {
            let text = Chain(&error).to_string();
            if text != logged {
                warn!("API server does not answer, trying again each second: {text}");
                logged = text;
            }
            tokio::time::sleep(API_POLL_PERIOD).await;
        }
    }

    /// Checks that the Node exists, without a retry: the next requests show whether it cannot be read.
    ///
    /// # Errors
    /// [`NodeMissing`] if it does not, and `create` is false or its creation failed.
    pub async fn ensure_node(&self, create: bool) -> Result<(), NodeMissing> {
        let missing = self
            .api
            .node(&self.node)
            .await
            .is_err_and(|error| error.is_not_found());
        if !missing {
            return Ok(());
        }
        if !create {
            return Err(NodeMissing::Absent(self.node.clone()));
        }
        let created = self.api.create_node(&node::new_object(&self.node)).await;
        created.map_err(|source| NodeMissing::Refused {
            node: self.node.clone(),
            source,
        })?;
        info!(node = self.node, "Node created");
        Ok(())
    }

    /// Makes sure that the CSINode exists, belongs to this Node and lists the migrated plugins.
    ///
    /// # Errors
    /// [`UpdateError::CsiNode`] after some 140 s, which has to end the program.
    pub async fn initialize(&self) -> Result<(), UpdateError> {
        self.attempts(INITIALIZE_ATTEMPTS, || {
            self.attempts(WRITE_ATTEMPTS, || self.initialize_csinode().map_err(text))
        })
        .await
        .map_err(|attempts| self.csinode_error(attempts))
    }

    fn csinode_error(&self, attempts: String) -> UpdateError {
        UpdateError::CsiNode {
            node: self.node.clone(),
            attempts,
        }
    }

    /// Runs `attempt` until it succeeds or the schedule ends; then returns the errors of all attempts.
    async fn attempts<F>(
        &self,
        schedule: Attempts,
        mut attempt: impl FnMut() -> F,
    ) -> Result<(), String>
    where
        F: Future<Output = Result<(), String>>,
    {
        let mut errors = Vec::new();
        for done in 1.. {
            let Err(error) = attempt().await else {
                return Ok(());
            };
            errors.push(error);
            match schedule.pause(done, (self.random)()) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => break,
            }
        }
        errors.dedup();
        Err(errors.join("; "))
    }
}

/// Single attempts to update an object, without retries.
impl NodeWriter {
    async fn install_on_node(&self, driver: &str, info: &NodeInfo) -> Result<(), AttemptError> {
        let _guard = self.update_lock.lock().await;
        let node = self.read_node().await?;
        if let Some(patch) = node::plan_install(&node, driver, &info.node_id, &info.topology)? {
            self.api.patch_node_status(&self.node, &patch).await?;
        }
        Ok(())
    }

    async fn uninstall_from_node(&self, driver: &str) -> Result<(), AttemptError> {
        let _guard = self.update_lock.lock().await;
        let node = self.read_node().await?;
        if let Some(patch) = node::plan_uninstall(&node, driver)? {
            self.api.patch_node_status(&self.node, &patch).await?;
        }
        Ok(())
    }

    async fn install_on_csinode(&self, driver: &str, info: &NodeInfo) -> Result<(), AttemptError> {
        let _guard = self.update_lock.lock().await;
        let owner = self.owner().await?;
        let mut csinode = self.api.csinode(&self.node).await?;
        if let Step::Create(object) = csinode::plan_install(csinode.as_ref(), &owner, driver, info)
        {
            csinode = Some(self.api.create_csinode(&object).await?);
        }
        let step = csinode::plan_install(csinode.as_ref(), &owner, driver, info);
        self.act(csinode.as_ref(), step).await
    }

    async fn uninstall_from_csinode(&self, driver: &str) -> Result<(), AttemptError> {
        let _guard = self.update_lock.lock().await;
        let csinode = self.api.csinode(&self.node).await?;
        let step = csinode::plan_uninstall(csinode.as_ref(), driver);
        self.act(csinode.as_ref(), step).await
    }

    async fn initialize_csinode(&self) -> Result<(), AttemptError> {
        let _guard = self.update_lock.lock().await;
        self.read_node().await?;
        let owner = self.owner().await?;
        let csinode = self.api.csinode(&self.node).await?;
        let step = csinode::plan_initialize(csinode.as_ref(), &owner);
        self.act(csinode.as_ref(), step).await
    }

    async fn act(&self, csinode: Option<&Value>, step: Step) -> Result<(), AttemptError> {
        match step {
            Step::Nothing => {}
            Step::Create(object) => {
                self.api.create_csinode(&object).await?;
            }
            Step::Replace(object) => {
                self.api.replace_csinode(&self.node, &object).await?;
            }
            Step::DeleteForeign => {
                let uid = csinode.and_then(|csinode| csinode.pointer("/metadata/uid"));
                self.api.delete_csinode(&self.node, uid).await?;
                return Err(AttemptError::Foreign(self.node.clone()));
            }
        }
        Ok(())
    }

    /// GET of the Node; stores its UID.
    async fn read_node(&self) -> Result<Value, ApiError> {
        let node = self.api.node(&self.node).await?;
        *self.known_uid() = node::uid(&node).map(str::to_owned);
        Ok(node)
    }

    /// The owner that the CSINode must have; reads the Node only if its UID is not known yet.
    async fn owner(&self) -> Result<Owner, AttemptError> {
        if self.known_uid().is_none() {
            self.read_node().await?;
        }
        let uid = self.known_uid().clone();
        let uid = uid.ok_or_else(|| AttemptError::NoUid(self.node.clone()))?;
        Ok(Owner {
            name: self.node.clone(),
            uid,
        })
    }

    fn known_uid(&self) -> MutexGuard<'_, Option<String>> {
        self.uid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text(error: AttemptError) -> String {
    Chain(&error).to_string()
}
