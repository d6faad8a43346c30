//! Access modes and volume mode of a PersistentVolume as CSI's volume capability.
//!
//! Separate, because it is one table that every controller sidecar shares in meaning and that the
//! driver's capability `SINGLE_NODE_MULTI_WRITER` switches between two columns.

use csi_proto::csi::VolumeCapability;
use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::volume_capability::{AccessMode as Access, AccessType};
use csi_proto::csi::volume_capability::{BlockVolume, MountVolume};

use super::Driver;
use crate::model::{AccessMode, CsiSource, VolumeSpec};

/// The volume's access modes have no counterpart in CSI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadAccessModes {
    /// `ReadWriteOncePod` beside another mode.
    PodExclusive,
    /// `ReadOnlyMany` beside `ReadWriteOnce`.
    ReaderAndWriter,
    /// No mode, or none that is known; carries the modes as written.
    Unsupported(Vec<String>),
}

impl std::fmt::Display for BadAccessModes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PodExclusive => out.write_str(
                "Kubernetes does not support use of ReadWriteOncePod with other access modes on \
                 the same PersistentVolume",
            ),
            Self::ReaderAndWriter => out.write_str(
                "CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume",
            ),
            Self::Unsupported(modes) => {
                write!(
                    out,
                    "unsupported AccessMode combination: [{}]",
                    modes.join(" ")
                )
            }
        }
    }
}

impl std::error::Error for BadAccessModes {}

/// The capability to publish `spec` with.
///
/// # Errors
/// Says which access modes cannot be expressed in CSI.
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

/// Kubernetes' set of modes as CSI's single mode. `modern` says whether the driver has
/// `SINGLE_NODE_MULTI_WRITER`, which gives single-node volumes a more exact mode.
///
/// # Errors
/// Says why there is none.
pub fn access_mode<'a>(
    modes: impl Iterator<Item = &'a str> + Clone,
    modern: bool,
) -> Result<Mode, BadAccessModes> {
    let has = |wanted| {
        modes
            .clone()
            .any(|mode| AccessMode::parse(mode) == Some(wanted))
    };
    if has(AccessMode::ReadWriteOncePod) {
        let alone = modes
            .clone()
            .all(|mode| AccessMode::parse(mode) == Some(AccessMode::ReadWriteOncePod));
        return match (alone, modern) {
            (false, _) => Err(BadAccessModes::PodExclusive),
            (true, true) => Ok(Mode::SingleNodeSingleWriter),
            (true, false) => Ok(Mode::SingleNodeWriter),
        };
    }
    let reader = has(AccessMode::ReadOnlyMany);
    let writer = has(AccessMode::ReadWriteOnce);
    match (has(AccessMode::ReadWriteMany), reader, writer) {
        (true, _, _) => Ok(Mode::MultiNodeMultiWriter),
        (false, true, true) => Err(BadAccessModes::ReaderAndWriter),
        (false, true, false) => Ok(Mode::MultiNodeReaderOnly),
        (false, false, true) if modern => Ok(Mode::SingleNodeMultiWriter),
        (false, false, true) => Ok(Mode::SingleNodeWriter),
        (false, false, false) => Err(BadAccessModes::Unsupported(
            modes.map(str::to_owned).collect(),
        )),
    }
}
