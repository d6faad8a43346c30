//! A volume, whatever its source, and how a pod uses it.

use std::collections::BTreeMap;

use registrar::kubelet::plan::keys::clip;
use serde::Deserialize;
use serde_json::Value;
use sidecar::quantity::Quantity;

use super::claim::ResizeOwner;

/// A Secret by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SecretRef {
    /// `namespace`
    #[serde(default)]
    pub namespace: String,
    /// `name`
    #[serde(default)]
    pub name: String,
}

/// The lifecycle of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// It belongs to a PersistentVolume.
    Persistent,
    /// An inline volume, which lives as long as its pod.
    Ephemeral,
}

impl Lifecycle {
    /// The name in `CSIDriver.spec.volumeLifecycleModes` and in `vol_data.json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Persistent => "Persistent",
            Self::Ephemeral => "Ephemeral",
        }
    }
}

/// A volume of a CSI driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its lifecycle.
    pub lifecycle: Lifecycle,
    /// Name of the PersistentVolume, or of the inline volume in its pod.
    pub spec_name: String,
    /// The driver.
    pub driver: String,
    /// The volume handle.
    pub handle: String,
    /// A block device instead of a file system.
    pub block: bool,
    /// `fsType`, empty if unset.
    pub fs_type: String,
    /// `volumeAttributes`
    pub attributes: BTreeMap<String, String>,
    /// `accessModes` as written.
    pub access_modes: Vec<String>,
    /// `mountOptions`
    pub mount_options: Vec<String>,
    /// `nodeStageSecretRef`
    pub stage_secret: Option<SecretRef>,
    /// `nodePublishSecretRef`
    pub publish_secret: Option<SecretRef>,
    /// `nodeExpandSecretRef`
    pub expand_secret: Option<SecretRef>,
    /// Capacity in bytes; 0 for an inline volume.
    pub capacity: i64,
    /// `nodeAffinity.required`, unparsed.
    pub affinity: Option<Value>,
    /// `claimRef.uid`
    pub claim_uid: String,
}

/// The claim behind a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimUse {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
    /// `status.capacity.storage` in bytes; 0 if unset.
    pub size: i64,
    /// Whether the nodes or the controller expand it now.
    pub resize_owner: ResizeOwner,
    /// The resizer tracks the expansion in the status.
    pub tracked: bool,
    /// `metadata.resourceVersion` of the object that this was read from.
    pub version: String,
}

/// Reference to a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
    /// Its service account.
    pub service_account: String,
}

/// How one pod uses a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The pod.
    pub pod: PodRef,
    /// `securityContext.fsGroup`
    pub fs_group: Option<i64>,
    /// `securityContext.fsGroupChangePolicy: OnRootMismatch`
    pub on_root_mismatch: bool,
    /// The volume source requests read-only access.
    pub read_only: bool,
    /// The SELinux label of the mount for this pod.
    pub se_linux: Option<String>,
    /// The claim; `None` for an inline volume.
    pub claim: Option<ClaimUse>,
}

/// The agent cannot mount this PersistentVolume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    /// The JSON is not a usable PersistentVolume.
    #[error("PersistentVolume {name} cannot be read: {reason}")]
    Unreadable {
        /// Name of the PersistentVolume.
        name: String,
        /// The parse error, or the field at fault.
        reason: String,
    },
    /// A PersistentVolume without a CSI source.
    #[error("PersistentVolume {0} is not a CSI volume")]
    NotCsi(String),
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
}

#[derive(Default, Deserialize)]
struct Meta {
    #[serde(default)]
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    csi: Option<Csi>,
    capacity: Option<BTreeMap<String, String>>,
    access_modes: Option<Vec<String>>,
    mount_options: Option<Vec<String>>,
    volume_mode: Option<String>,
    claim_ref: Option<ClaimRef>,
    node_affinity: Option<Affinity>,
}

#[derive(Deserialize)]
struct ClaimRef {
    #[serde(default)]
    uid: String,
}

#[derive(Deserialize)]
struct Affinity {
    required: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Csi {
    #[serde(default)]
    driver: String,
    #[serde(default)]
    volume_handle: String,
    fs_type: Option<String>,
    volume_attributes: Option<BTreeMap<String, String>>,
    node_stage_secret_ref: Option<SecretRef>,
    node_publish_secret_ref: Option<SecretRef>,
    node_expand_secret_ref: Option<SecretRef>,
}

impl Volume {
    /// Reads a PersistentVolume; `name` is the requested one.
    ///
    /// # Errors
    /// [`VolumeError`]
    pub fn persistent(name: &str, json: &str) -> Result<Self, VolumeError> {
        let unreadable = |reason: String| VolumeError::Unreadable {
            name: clip(name).to_owned(),
            reason,
        };
        let wire: Wire = serde_json::from_str(json).map_err(|e| unreadable(e.to_string()))?;
        if wire.metadata.name != name {
            return Err(unreadable("the answer is another object".to_owned()));
        }
        let spec = wire.spec;
        let csi = spec
            .csi
            .ok_or_else(|| VolumeError::NotCsi(clip(name).to_owned()))?;
        Ok(Self {
            lifecycle: Lifecycle::Persistent,
            spec_name: wire.metadata.name,
            driver: csi.driver,
            handle: csi.volume_handle,
            block: spec.volume_mode.as_deref() == Some("Block"),
            fs_type: csi.fs_type.unwrap_or_default(),
            attributes: csi.volume_attributes.unwrap_or_default(),
            access_modes: spec.access_modes.unwrap_or_default(),
            mount_options: spec.mount_options.unwrap_or_default(),
            stage_secret: csi.node_stage_secret_ref,
            publish_secret: csi.node_publish_secret_ref,
            expand_secret: csi.node_expand_secret_ref,
            capacity: bytes(&spec.capacity.unwrap_or_default()),
            affinity: spec.node_affinity.and_then(|affinity| affinity.required),
            claim_uid: spec.claim_ref.map(|claim| claim.uid).unwrap_or_default(),
        })
    }

    /// Whether only one pod in the cluster may use it.
    #[must_use]
    pub fn is_for_one_pod(&self) -> bool {
        self.access_modes == ["ReadWriteOncePod"]
    }

    /// Whether it belongs to a PersistentVolume.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        self.lifecycle == Lifecycle::Persistent
    }
}

/// `storage` in a resource list, in bytes; 0 without it.
pub(super) fn bytes(resources: &BTreeMap<String, String>) -> i64 {
    let quantity = resources.get("storage");
    let quantity = quantity.and_then(|text| text.parse::<Quantity>().ok());
    quantity.map_or(0, Quantity::value)
}
