//! Access modes and volume mode of a PersistentVolume as CSI's volume capability.

use csi_proto::csi::VolumeCapability;
use csi_proto::csi::volume_capability::{AccessMode as Access, AccessType};
use csi_proto::csi::volume_capability::{BlockVolume, MountVolume};

use super::Driver;
use crate::model::{CsiSource, VolumeSpec};

pub use sidecar::csi::access_mode::{BadAccessModes, access_mode};

/// The volume capability for publishing `spec`.
///
/// # Errors
/// Names the access modes that CSI cannot express.
pub fn volume_capability(
    spec: &VolumeSpec,
    source: &CsiSource,
    driver: &Driver,
) -> Result<VolumeCapability, BadAccessModes> {
    let mode = access_mode(
        spec.access_modes.iter().map(|mode| &**mode),
        driver.abilities.single_node_multi_writer,
    )?;
    let access_type = if spec.block {
        AccessType::Block(BlockVolume {})
    } else {
        AccessType::Mount(MountVolume {
            fs_type: match &*source.fs_type {
                "" => driver.default_fs_type.clone(),
                named => named.to_owned(),
            },
            mount_flags: spec
                .mount_options
                .iter()
                .map(|flag| flag.to_string())
                .collect(),
            volume_mount_group: String::new(),
        })
    };
    Ok(VolumeCapability {
        access_mode: Some(Access { mode: mode.into() }),
        access_type: Some(access_type),
    })
}
