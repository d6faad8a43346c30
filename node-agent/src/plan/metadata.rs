//! `vol_data.json`: the metadata on disk of a volume that may be staged or published.
//!
//! Kubelet reads and writes the same file: a node can switch between the two at any time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::layout::{Layout, Unsafe, driver_name};
use crate::model::volume::Volume;

/// The content of the file: one line of JSON with text values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name of the PersistentVolume or of the inline volume; absent beside a staging path.
    #[serde(rename = "specVolID", skip_serializing_if = "Option::is_none")]
    pub spec_name: Option<String>,
    /// The volume handle.
    #[serde(rename = "volumeHandle")]
    pub handle: String,
    /// The driver.
    #[serde(rename = "driverName")]
    pub driver: String,
    /// Name of the Node.
    #[serde(rename = "nodeName", skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// `Persistent` or `Ephemeral`; only beside a published file system.
    #[serde(
        rename = "volumeLifecycleMode",
        skip_serializing_if = "Option::is_none"
    )]
    pub lifecycle: Option<String>,
    /// Name of the VolumeAttachment.
    #[serde(rename = "attachmentID", skip_serializing_if = "Option::is_none")]
    pub attachment: Option<String>,
    /// The SELinux label of the mount.
    #[serde(
        rename = "seLinuxMountContext",
        skip_serializing_if = "Option::is_none"
    )]
    pub se_linux: Option<String>,
}

/// The file is unusable.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// It is no JSON object with text values.
    #[error("not the metadata of a volume")]
    Json(#[source] serde_json::Error),
    /// The driver's name is missing or invalid.
    #[error(transparent)]
    Driver(#[from] Unsafe),
    /// The volume handle is missing.
    #[error("it names no volume")]
    NoHandle,
}

impl Metadata {
    /// Metadata for the folder of a staging path.
    #[must_use]
    pub fn staged(volume: &Volume, se_linux: Option<&str>) -> Self {
        Self {
            handle: volume.handle.clone(),
            driver: volume.driver.clone(),
            se_linux: se_linux.map(str::to_owned),
            ..Self::default()
        }
    }

    /// Metadata for the folder of a published file system or of a block device.
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

    /// The content of the file.
    #[must_use]
    pub fn text(&self) -> String {
        // Text values always serialize.
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Parses the file. Unknown keys are ignored, as in kubelet.
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
