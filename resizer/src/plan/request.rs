//! ControllerExpandVolume and ControllerModifyVolume requests.
//!
//! What is sent to the driver must be exactly reproducible: a driver that is asked again after a
//! crash has to see the same request.

use std::collections::BTreeMap;

use csi_proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use csi_proto::csi::{
    CapacityRange, ControllerExpandVolumeRequest, ControllerModifyVolumeRequest, VolumeCapability,
};
use sidecar::csi::Migrated;
use sidecar::csi::access_mode::{BadAccessModes, access_mode};

use super::{Driver, Settings};
use crate::keys::{CLAIM_NAME_PARAMETER, CLAIM_NAMESPACE_PARAMETER, VOLUME_NAME_PARAMETER};
use crate::model::{AttributesClass, ClaimDetail, CsiSource, Source, Volume};

/// Values of a Secret, by key. Has no `Debug`, so that it cannot be logged by accident.
pub type Secrets = BTreeMap<String, String>;

/// `ControllerExpandVolume` to `bytes`.
///
/// # Errors
/// Says which access modes cannot be expressed in CSI.
pub fn expand(
    (volume, source): (&Volume, &CsiSource),
    driver: &Driver,
    bytes: i64,
    secrets: &Secrets,
) -> Result<ControllerExpandVolumeRequest, BadAccessModes> {
    let modes = volume.kind.access_modes.iter().map(|mode| &**mode);
    let mode = access_mode(modes, driver.abilities.single_node_multi_writer)?;
    let access_type = if volume.kind.block {
        AccessType::Block(BlockVolume {})
    } else {
        AccessType::Mount(MountVolume {
            fs_type: source.fs_type.to_string(),
            mount_flags: volume
                .kind
                .mount_options
                .iter()
                .map(|flag| flag.to_string())
                .collect(),
            volume_mount_group: String::new(),
        })
    };
    Ok(ControllerExpandVolumeRequest {
        volume_id: volume.handle.to_string(),
        capacity_range: Some(CapacityRange {
            required_bytes: bytes,
            limit_bytes: 0,
        }),
        secrets: secrets.clone(),
        volume_capability: Some(VolumeCapability {
            access_mode: Some(AccessMode { mode: mode.into() }),
            access_type: Some(access_type),
        }),
    })
}

/// How a call for `volume` is counted.
#[must_use]
pub fn migrated(volume: &Volume) -> Migrated {
    Migrated(matches!(volume.kind.source, Source::InTree(_)))
}

/// `ControllerModifyVolume` to what `class` says.
#[must_use]
pub fn modify(
    claim: &ClaimDetail,
    volume: &Volume,
    class: &AttributesClass,
    settings: &Settings,
    secrets: &Secrets,
) -> ControllerModifyVolumeRequest {
    let parameters = class.parameters.iter();
    let mut parameters: std::collections::HashMap<String, String> = parameters
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    if settings.extra_modify_metadata {
        for (key, value) in [
            (CLAIM_NAME_PARAMETER, &claim.name),
            (CLAIM_NAMESPACE_PARAMETER, &claim.namespace),
            (VOLUME_NAME_PARAMETER, &claim.volume),
        ] {
            parameters.insert(key.to_owned(), value.to_string());
        }
    }
    ControllerModifyVolumeRequest {
        volume_id: volume.handle.to_string(),
        secrets: secrets.clone(),
        mutable_parameters: parameters.into_iter().collect(),
    }
}
