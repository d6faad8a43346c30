//! A PersistentVolumeClaim on the way from a pod to its volume.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::volume::bytes;

/// What is read of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Uid.
    pub uid: String,
    /// Name, to be held against what was asked for.
    pub name: String,
    /// It is being deleted and nothing protects it.
    pub deleted: bool,
    /// `status.phase`
    pub bound: bool,
    /// `spec.volumeName`
    pub volume: String,
    /// `status.capacity.storage` in bytes.
    pub size: i64,
    /// Uid of the controlling owner.
    pub owner: String,
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
#[serde(default)]
struct Status {
    phase: Option<String>,
    capacity: Option<BTreeMap<String, String>>,
}

impl Claim {
    /// Reads a claim.
    ///
    /// # Errors
    /// If it is none.
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
        Ok(Self {
            uid: meta.uid.unwrap_or_default(),
            name: meta.name,
            deleted: meta.deletion_timestamp.is_some() && !protected,
            bound: status.phase.as_deref() == Some("Bound"),
            volume: spec.volume_name.unwrap_or_default(),
            size: bytes(&status.capacity.unwrap_or_default()),
            owner: owner.map(|owner| owner.uid).unwrap_or_default(),
        })
    }
}
