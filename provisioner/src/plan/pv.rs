//! The PersistentVolume for a volume that the driver made, and the check of the driver's response.
//!
//! The content of the object is settled before the first call, is kept with the request while its outcome is unknown,
//! and must come out the same whichever process gets the response.

use csi_proto::csi::{CreateVolumeResponse, Volume};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sidecar::csi::Migrated;
use sidecar::quantity::Quantity;
use std::collections::BTreeMap;

use super::migrated::{self, InTreeError};
use super::topology::node_affinity;
use crate::keys::{
    DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE, IDENTITY_ATTRIBUTE, MODIFY_SECRET_NAME,
    MODIFY_SECRET_NAMESPACE, PROVISIONED_BY, VOLUME_FINALIZER,
};

/// The content of the PersistentVolume, as far as it is known before CreateVolume. Its name is the request's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PvTemplate {
    /// The claim that the volume is for.
    pub claim: ForClaim,
    /// `provisioner` of the class: the driver, or the in-tree plugin that it replaced. Determines whether the object is
    /// the driver's or the plugin's, even if the class has been replaced by the time of the response.
    pub provisioned_by: String,
    /// Name of the class.
    pub class: String,
    /// `reclaimPolicy` of the class; absent is left to the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim_policy: Option<String>,
    /// `mountOptions` of the class.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mount_options: Vec<String>,
    /// `accessModes` of the claim.
    pub access_modes: Vec<String>,
    /// `volumeMode` of the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<String>,
    /// File system, empty for a block volume and where none is named.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fs_type: String,
    /// Whether the volume is mounted read-only everywhere (`--controller-publish-readonly`).
    pub read_only: bool,
    /// `volumeAttributesClassName` of the claim, if it names one and the gate is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes_class: Option<String>,
    /// Secrets that later operations on the volume need.
    pub secrets: SecretRefs,
    /// Bytes requested: the least capacity of the volume, and its capacity if the driver reports none.
    pub requested: i64,
    /// Whether the driver must confirm that it used the data source.
    pub sourced: bool,
    /// Whether the accessible topology in the response counts.
    pub topology: bool,
}

impl PvTemplate {
    /// Name of the driver.
    #[must_use]
    pub fn driver(&self) -> &str {
        migrated::driver_of(&self.provisioned_by)
    }

    /// Whether the object is one of the in-tree plugin that the driver replaced.
    #[must_use]
    pub fn is_in_tree(&self) -> bool {
        self.driver() != self.provisioned_by
    }
}

/// The claim in `spec.claimRef`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ForClaim {
    /// `metadata.namespace`
    pub namespace: String,
    /// `metadata.name`
    pub name: String,
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.resourceVersion` as it was read
    pub resource_version: String,
}

/// Secrets that the PersistentVolume refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SecretRefs {
    /// For DeleteVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioner: Option<SecretName>,
    /// For ControllerModifyVolume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_modify: Option<SecretName>,
    /// `controllerPublishSecretRef`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_publish: Option<SecretName>,
    /// `nodeStageSecretRef`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_stage: Option<SecretName>,
    /// `nodePublishSecretRef`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_publish: Option<SecretName>,
    /// `controllerExpandSecretRef`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_expand: Option<SecretName>,
    /// `nodeExpandSecretRef`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_expand: Option<SecretName>,
}

/// Reference of a Secret, in the spelling of a PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretName {
    /// Name of the Secret.
    pub name: String,
    /// Namespace of the Secret.
    pub namespace: String,
}

/// Why a successful response contains no usable volume. The call is repeated, since the driver's state is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The response contains no volume.
    #[error("the driver answered without a volume")]
    NoVolume,
    /// The volume has no ID.
    #[error("the driver answered with a volume without id")]
    NoId,
    /// The volume is smaller than asked for.
    #[error("created volume capacity {has} less than requested capacity {wanted}")]
    TooSmall {
        /// Bytes requested.
        wanted: i64,
        /// Bytes it has.
        has: i64,
        /// ID of the volume, which has to be deleted.
        id: String,
    },
    /// The PersistentVolume of its name refers to another volume.
    #[error("the PersistentVolume to be saved already exists, for a volume other than {id}")]
    Unrecorded {
        /// ID of the volume, which has to be deleted.
        id: String,
    },
    /// The driver does not confirm that it used the data source.
    #[error(
        "volume content source missing: the driver did not confirm that it used the data source"
    )]
    NotFilled {
        /// ID of the volume, which has to be deleted.
        id: String,
    },
    /// The class is of an in-tree plugin, and no PersistentVolume of the plugin can be saved.
    #[error("{why}")]
    Untranslatable {
        /// The reason.
        why: Box<InTreeError>,
        /// ID of the volume, which has to be deleted.
        id: String,
    },
}

impl Unusable {
    /// ID of the unusable volume, which has to be deleted at once.
    #[must_use]
    pub fn discard(&self) -> Option<&str> {
        match self {
            Self::NoVolume | Self::NoId => None,
            Self::TooSmall { id, .. }
            | Self::Unrecorded { id }
            | Self::NotFilled { id }
            | Self::Untranslatable { id, .. } => Some(id),
        }
    }

    /// Label `migrated` for the metrics of that deletion: as upstream does, only an error of the translation counts for
    /// the plugin.
    #[must_use]
    pub fn migrated(&self) -> Migrated {
        Migrated(matches!(self, Self::Untranslatable { .. }))
    }
}

/// The volume in the driver's response. `name` is the PersistentVolume's.
///
/// # Errors
/// When the volume does not satisfy the request.
pub fn accept(
    pv_template: &PvTemplate,
    name: &str,
    answer: CreateVolumeResponse,
) -> Result<Volume, Unusable> {
    let mut volume = answer.volume.ok_or(Unusable::NoVolume)?;
    if volume.volume_id.is_empty() {
        return Err(Unusable::NoId);
    }
    if volume.capacity_bytes == 0 {
        volume.capacity_bytes = pv_template.requested;
    }
    if volume.capacity_bytes < pv_template.requested {
        return Err(Unusable::TooSmall {
            wanted: pv_template.requested,
            has: volume.capacity_bytes,
            id: volume.volume_id,
        });
    }
    if pv_template.sourced && volume.content_source.is_none() {
        let id = volume.volume_id;
        return Err(Unusable::NotFilled { id });
    }
    if pv_template.is_in_tree() {
        object(pv_template, name, &volume, "")?;
    }
    Ok(volume)
}

/// The PersistentVolume for an accepted `volume`. `identity` is this process's.
///
/// # Errors
/// The reason why [`accept`] would reject the volume.
pub fn object(
    pv_template: &PvTemplate,
    name: &str,
    volume: &Volume,
    identity: &str,
) -> Result<Value, Unusable> {
    let object = csi_object(pv_template, name, volume, identity);
    if pv_template.is_in_tree() {
        migrated::volume(&object).map_err(|why| Unusable::Untranslatable {
            why: Box::new(why),
            id: volume.volume_id.clone(),
        })
    } else {
        Ok(object)
    }
}

fn csi_object(pv_template: &PvTemplate, name: &str, volume: &Volume, identity: &str) -> Value {
    let claim = &pv_template.claim;
    let mut spec = json!({
        "capacity": { "storage": Quantity::from_bytes(volume.capacity_bytes).to_string() },
        "accessModes": pv_template.access_modes,
        "storageClassName": pv_template.class,
        "claimRef": {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
            "resourceVersion": claim.resource_version,
        },
        "csi": source(pv_template, volume, identity),
    });
    let optional = [
        ("volumeMode", pv_template.volume_mode.as_ref()),
        (
            "persistentVolumeReclaimPolicy",
            pv_template.reclaim_policy.as_ref(),
        ),
        (
            "volumeAttributesClassName",
            pv_template.attributes_class.as_ref(),
        ),
    ];
    if let Some(spec) = spec.as_object_mut() {
        for (field, value) in optional {
            if let Some(value) = value {
                spec.insert(field.to_owned(), value.as_str().into());
            }
        }
        if !pv_template.mount_options.is_empty() {
            spec.insert("mountOptions".to_owned(), json!(pv_template.mount_options));
        }
        if pv_template.topology
            && let Some(affinity) = node_affinity(&volume.accessible_topology)
        {
            spec.insert("nodeAffinity".to_owned(), affinity);
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": annotations(pv_template),
            "finalizers": [VOLUME_FINALIZER],
        },
        "spec": spec,
    })
}

fn annotations(pv_template: &PvTemplate) -> BTreeMap<&'static str, &str> {
    let deletion = pv_template.secrets.provisioner.as_ref();
    let (name, namespace) = deletion.map_or(("", ""), |secret| (&*secret.name, &*secret.namespace));
    let mut annotations = BTreeMap::from([
        (PROVISIONED_BY, &*pv_template.provisioned_by),
        // An empty value means that there is no Secret; a missing annotation, that the class has to tell.
        (DELETION_SECRET_NAME, name),
        (DELETION_SECRET_NAMESPACE, namespace),
    ]);
    if let Some(modify) = &pv_template.secrets.controller_modify {
        annotations.insert(MODIFY_SECRET_NAME, &modify.name);
        annotations.insert(MODIFY_SECRET_NAMESPACE, &modify.namespace);
    }
    annotations
}

fn source(pv_template: &PvTemplate, volume: &Volume, identity: &str) -> Value {
    let mut attributes = BTreeMap::from([(IDENTITY_ATTRIBUTE, identity)]);
    let context = volume.volume_context.iter();
    attributes.extend(context.map(|(key, value)| (&**key, &**value)));
    let mut source = Map::new();
    source.insert("driver".to_owned(), pv_template.driver().into());
    source.insert("volumeHandle".to_owned(), volume.volume_id.as_str().into());
    source.insert("volumeAttributes".to_owned(), json!(attributes));
    if pv_template.read_only {
        source.insert("readOnly".to_owned(), true.into());
    }
    if !pv_template.fs_type.is_empty() {
        source.insert("fsType".to_owned(), pv_template.fs_type.as_str().into());
    }
    let secrets = &pv_template.secrets;
    let references = [
        ("controllerPublishSecretRef", &secrets.controller_publish),
        ("nodeStageSecretRef", &secrets.node_stage),
        ("nodePublishSecretRef", &secrets.node_publish),
        ("controllerExpandSecretRef", &secrets.controller_expand),
        ("nodeExpandSecretRef", &secrets.node_expand),
    ];
    for (field, reference) in references {
        if let Some(reference) = reference {
            source.insert(field.to_owned(), json!(reference));
        }
    }
    source.into()
}

#[cfg(test)]
mod tests;
