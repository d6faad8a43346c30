//! PersistentVolumeClaims: the link from a pod to its volume.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::volume::{ClaimUse, bytes};

/// A PersistentVolumeClaim, as far as the agent reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Uid.
    pub uid: String,
    /// Name, compared with the requested one.
    pub name: String,
    /// It is being deleted, and no finalizer protects it.
    pub deleted: bool,
    /// `status.phase`
    pub bound: bool,
    /// `spec.volumeName`
    pub volume: String,
    /// `status.capacity.storage` in bytes.
    pub size: i64,
    /// UID of the controlling owner.
    pub owner: String,
    /// Whether the nodes or the controller expand it now.
    pub resize_owner: ResizeOwner,
    /// The resizer tracks the expansion in the status; resizers before 1.34 may not.
    pub tracked: bool,
    /// `metadata.resourceVersion`
    pub version: String,
}

/// Who expands a claim's volume next, from `status.allocatedResourceStatuses.storage`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResizeOwner {
    /// The status does not say.
    #[default]
    Anybody,
    /// The nodes (`NodeResizePending`).
    Node,
    /// The nodes, and one of them has started (`NodeResizeInProgress`).
    NodeBegun,
    /// Not the nodes: the controller has not finished, or the expansion is infeasible.
    NotNode,
}

impl ResizeOwner {
    fn read(status: Option<&str>) -> Self {
        match status {
            None | Some("") => Self::Anybody,
            Some("NodeResizePending") => Self::Node,
            Some("NodeResizeInProgress") => Self::NodeBegun,
            Some(_) => Self::NotNode,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    name: String,
    resource_version: String,
    uid: Option<String>,
    deletion_timestamp: Option<String>,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<Owner>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Owner {
    uid: String,
    controller: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    volume_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: Option<String>,
    capacity: Option<BTreeMap<String, String>>,
    allocated_resources: Option<BTreeMap<String, String>>,
    allocated_resource_statuses: Option<BTreeMap<String, String>>,
}

impl Claim {
    /// Reads a claim.
    ///
    /// # Errors
    /// The JSON is not a claim.
    pub fn read(json: &str) -> Result<Self, serde_json::Error> {
        let Wire {
            metadata: meta,
            spec,
            status,
        } = serde_json::from_str(json)?;
        let status = status.unwrap_or_default();
        let finalizers = meta.finalizers.unwrap_or_default();
        let protected = finalizers
            .iter()
            .any(|name| name == "kubernetes.io/pvc-protection");
        let owners = meta.owner_references.unwrap_or_default();
        let owner = owners
            .into_iter()
            .find(|owner| owner.controller == Some(true));
        let statuses = status.allocated_resource_statuses.unwrap_or_default();
        let resize_owner = statuses.get("storage").map(String::as_str);
        let allocated = status.allocated_resources.unwrap_or_default();
        Ok(Self {
            resize_owner: ResizeOwner::read(resize_owner),
            tracked: resize_owner.is_some() || allocated.contains_key("storage"),
            version: meta.resource_version,
            uid: meta.uid.unwrap_or_default(),
            name: meta.name,
            deleted: meta.deletion_timestamp.is_some() && !protected,
            bound: status.phase.as_deref() == Some("Bound"),
            volume: spec.volume_name.unwrap_or_default(),
            size: bytes(&status.capacity.unwrap_or_default()),
            owner: owner.map(|owner| owner.uid).unwrap_or_default(),
        })
    }

    /// The part of the claim that an expansion needs.
    #[must_use]
    pub fn usage(&self, namespace: &str) -> ClaimUse {
        ClaimUse {
            namespace: namespace.to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            size: self.size,
            resize_owner: self.resize_owner,
            tracked: self.tracked,
            version: self.version.clone(),
        }
    }
}
