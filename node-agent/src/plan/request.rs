//! Builds requests to the driver from the volume and its use by the pod.

use std::collections::BTreeMap;
use std::path::Path;

use csi_proto::csi;
use csi_proto::csi::volume_capability::{
    AccessMode as CsiMode, AccessType, BlockVolume, MountVolume,
};
use sidecar::csi::access_mode::AccessMode;

use super::script::Capabilities;
use crate::model::volume::{PodRef, Use, Volume};

/// `volume_capability`. Only the first access mode counts; without one, and for unknown modes, it
/// is ReadWriteOnce.
#[must_use]
pub fn capability(
    volume: &Volume,
    capabilities: Capabilities,
    mount: MountVolume,
) -> csi::VolumeCapability {
    let mode = volume.access_modes.first();
    let mode = mode.and_then(|mode| AccessMode::parse(mode));
    let mode = mode.unwrap_or(AccessMode::ReadWriteOnce);
    // An inline volume has no access modes and no second writer.
    let modern = capabilities.multi_writer && volume.is_persistent();
    let access_type = if volume.block {
        AccessType::Block(BlockVolume {})
    } else {
        AccessType::Mount(mount)
    };
    csi::VolumeCapability {
        access_mode: Some(CsiMode {
            mode: mode.mode(modern).into(),
        }),
        access_type: Some(access_type),
    }
}

/// The mount part of a capability. `group`: the group that the driver is to apply.
#[must_use]
pub fn mount(volume: &Volume, se_linux: Option<&str>, group: Option<i64>) -> MountVolume {
    let mut mount_flags = volume.mount_options.clone();
    mount_flags.extend(se_linux.map(|label| format!("context=\"{label}\"")));
    MountVolume {
        fs_type: volume.fs_type.clone(),
        mount_flags,
        volume_mount_group: group.map(|group| group.to_string()).unwrap_or_default(),
    }
}

/// The group that the driver applies itself, if it can.
#[must_use]
pub fn mount_group(usage: &Use, capabilities: Capabilities) -> Option<i64> {
    usage.fs_group.filter(|_| capabilities.mount_group)
}

/// The `csi.storage.k8s.io/…` keys that drivers with `podInfoOnMount` get in `volume_context`.
#[must_use]
pub fn pod_info(pod: &PodRef, ephemeral: bool) -> [(String, String); 5] {
    let key = |key: &str| format!("csi.storage.k8s.io/{key}");
    [
        (key("pod.name"), pod.name.clone()),
        (key("pod.namespace"), pod.namespace.clone()),
        (key("pod.uid"), pod.uid.clone()),
        (key("serviceAccount.name"), pod.service_account.clone()),
        (key("ephemeral"), ephemeral.to_string()),
    ]
}

/// Key of the tokens, in `volume_context` or in `secrets`.
pub const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// The tokens by audience, in the format that drivers expect.
#[must_use]
pub fn tokens(tokens: &BTreeMap<String, (String, String)>) -> String {
    let entry = |(audience, (token, expires)): (&String, &(String, String))| {
        let value = serde_json::json!({ "token": token, "expirationTimestamp": expires });
        (audience.clone(), value)
    };
    serde_json::Value::Object(tokens.iter().map(entry).collect()).to_string()
}

/// A path as text; all paths are built from texts.
#[must_use]
pub fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
