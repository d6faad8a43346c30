//! Publish and unpublish requests.
//!
//! What is sent to the driver must be exactly reproducible: a driver that is asked again after a
//! crash has to see the same request.

use std::collections::BTreeMap;

use csi_proto::csi::{
    ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest, VolumeCapability,
};

use super::Driver;
use crate::model::CsiSource;

/// Values of a Secret, by key. Has no `Debug`, so that it cannot be logged by accident.
pub type Secrets = BTreeMap<String, String>;

/// `ControllerPublishVolume` for `source` on the node the driver knows as `node_id`.
#[must_use]
pub fn publish(
    source: &CsiSource,
    node_id: &str,
    capability: VolumeCapability,
    secrets: &Secrets,
    driver: &Driver,
) -> ControllerPublishVolumeRequest {
    ControllerPublishVolumeRequest {
        volume_id: source.handle.to_string(),
        node_id: node_id.to_owned(),
        volume_capability: Some(capability),
        readonly: source.read_only && driver.abilities.readonly,
        secrets: secrets.clone(),
        volume_context: source
            .attributes
            .iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
    }
}

/// `ControllerUnpublishVolume` for the volume with this handle on the node the driver knows as
/// `node_id`.
#[must_use]
pub fn unpublish(
    handle: &str,
    node_id: &str,
    secrets: &Secrets,
) -> ControllerUnpublishVolumeRequest {
    ControllerUnpublishVolumeRequest {
        volume_id: handle.to_owned(),
        node_id: node_id.to_owned(),
        secrets: secrets.clone(),
    }
}
