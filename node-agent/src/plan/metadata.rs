//! `vol_data.json`, what is remembered on disk of a volume that may be staged or published.
//!
//! Kubelet reads the file too: a node can change from one to the other at any time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::layout::{Layout, Unsafe, driver_name};
use crate::model::volume::Volume;

/// The file; one line of JSON with text values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name of the PersistentVolume or of the volume in the pod; not beside a staging path.
    #[serde(rename = "specVolID", skip_serializing_if = "Option::is_none")]
    pub spec_name: Option<String>,
    /// The driver's name of the volume.
    #[serde(rename = "volumeHandle")]
    pub handle: String,
    /// The driver.
    #[serde(rename = "driverName")]
    pub driver: String,
    /// The Node.
    #[serde(rename = "nodeName", skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// `Persistent` or `Ephemeral`, beside a published file system.
    #[serde(
        rename = "volumeLifecycleMode",
        skip_serializing_if = "Option::is_none"
    )]
    pub lifecycle: Option<String>,
    /// Name of the VolumeAttachment.
    #[serde(rename = "attachmentID", skip_serializing_if = "Option::is_none")]
    pub attachment: Option<String>,
    /// The SELinux label that it is mounted with.
    #[serde(
        rename = "seLinuxMountContext",
        skip_serializing_if = "Option::is_none"
    )]
    pub se_linux: Option<String>,
}

/// The file says nothing that could be used.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// No JSON object of texts.
    #[error("not the metadata of a volume")]
    Json(#[source] serde_json::Error),
    /// A driver or volume is missing or impossible.
    #[error(transparent)]
    Driver(#[from] Unsafe),
    /// There is no handle.
    #[error("it names no volume")]
    NoHandle,
}

impl Metadata {
    /// What goes beside a staging path.
    #[must_use]
    pub fn staged(volume: &Volume, se_linux: Option<&str>) -> Self {
        Self {
            handle: volume.handle.clone(),
            driver: volume.driver.clone(),
            se_linux: se_linux.map(str::to_owned),
            ..Self::default()
        }
    }

    /// What goes beside a published file system, or into the folder of a block device.
    #[must_use]
    pub fn published(layout: &Layout, volume: &Volume, se_linux: Option<&str>) -> Self {
        let lifecycle = volume.lifecycle.name().to_owned();
        Self {
            spec_name: Some(volume.spec_name.clone()),
            node: Some(layout.node.clone()),
            lifecycle: (!volume.block).then_some(lifecycle),
            attachment: Some(layout.attachment(&volume.driver, &volume.handle)),
            ..Self::staged(volume, se_linux)
        }
    }

    /// The text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        // Texts always have a JSON form.
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Reads the file. Keys that nobody knows are passed over, as kubelet does.
    ///
    /// # Errors
    /// [`MetadataError`]
    pub fn read(text: &str) -> Result<Self, MetadataError> {
        let _texts_only: BTreeMap<String, String> =
            serde_json::from_str(text).map_err(MetadataError::Json)?;
        let data: Self = serde_json::from_str(text).map_err(MetadataError::Json)?;
        driver_name(&data.driver)?;
        if data.handle.is_empty() {
            return Err(MetadataError::NoHandle);
        }
        Ok(data)
    }
}
