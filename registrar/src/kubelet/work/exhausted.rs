//! Handles a pod whose volumes are not attached: checks whether this node is full, corrects the limit, and rejects the
//! pod.

use std::sync::Arc;

use sidecar::error::Chain;
use tracing::{error, warn};

use super::api::{Api, ApiError};
use super::plugin::CsiPlugin;
use super::refresher::Known;
use crate::kubelet::plan::exhausted::{
    Waiting, attachment_name, is_checked, is_exhausted, rejection,
};

/// A pod by its namespace, name and UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodKey {
    /// `metadata.namespace` of the pod.
    pub namespace: String,
    /// `metadata.name` of the pod.
    pub name: String,
    /// `metadata.uid` of the pod.
    pub uid: String,
}

/// The check for programs that wait for volumes on behalf of pods.
pub struct Attachments {
    api: Api,
    node: String,
    plugin: Arc<CsiPlugin>,
    known: Known,
}

impl Attachments {
    /// A check for volumes of the node called `node`.
    #[must_use]
    pub fn new(api: Api, node: String, plugin: Arc<CsiPlugin>, known: Known) -> Self {
        Self {
            api,
            node,
            plugin,
            known,
        }
    }

    /// Fails `pod` if one of the volumes it waits for, as (driver, volume handle), cannot be attached to this node.
    /// Returns whether it was failed.
    ///
    /// # Errors
    /// [`ApiError`] if the pod could not be written.
    pub async fn reject_if_exhausted(
        &self,
        pod: &PodKey,
        volumes: &[(String, String)],
    ) -> Result<bool, ApiError> {
        let mut full = None;
        for (driver, volume_handle) in volumes {
            let object = self.known.period(driver);
            let waiting = Waiting {
                driver: driver.clone(),
                volume_handle: volume_handle.clone(),
                object,
            };
            if is_checked(&waiting) && self.is_exhausted(&waiting).await {
                self.correct(driver).await;
                full.get_or_insert(driver);
            }
        }
        let Some(driver) = full else { return Ok(false) };
        self.api
            .patch_pod_status(&pod.namespace, &pod.name, &pod.uid, &rejection(driver))
            .await
            .map(|_| true)
            // The pod has gone meanwhile, perhaps with a successor.
            .or_else(|error| {
                let gone = error.is_not_found() || error.is_conflict();
                if gone { Ok(false) } else { Err(error) }
            })
    }

    async fn is_exhausted(&self, volume: &Waiting) -> bool {
        let name = attachment_name(&volume.volume_handle, &volume.driver, &self.node);
        match self.api.attachment(&name).await {
            Ok(attachment) => is_exhausted(&attachment),
            Err(error) => {
                if !error.is_not_found() {
                    warn!(error = %Chain(&error), "cannot read why a volume is not attached");
                }
                false
            }
        }
    }

    async fn correct(&self, driver: &str) {
        if let Err(error) = self.plugin.refresh(driver).await {
            error!(driver, %error, "cannot refresh the driver's volume limit");
        }
    }
}
