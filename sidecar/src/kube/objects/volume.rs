//! PersistentVolumes on the wire.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Phase, Reference};
use crate::kube::lean::{Meta, Pairs, Parts, Text, nullable};

/// A PersistentVolume.
pub type Volume<'a> = Parts<'a, Spec<'a>, Phase<'a>>;

/// The fields of `spec` that this program reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Spec<'a> {
    /// `capacity`
    pub capacity: Pairs<'a>,
    /// `csi`
    pub csi: Option<Csi<'a>>,
    aws_elastic_block_store: Option<Value>,
    gce_persistent_disk: Option<Value>,
    cinder: Option<Value>,
    azure_disk: Option<Value>,
    azure_file: Option<Value>,
    vsphere_volume: Option<Value>,
    portworx_volume: Option<Value>,
    /// `claimRef`
    pub claim_ref: Option<Reference<'a>>,
    /// `accessModes`
    #[serde(deserialize_with = "nullable")]
    pub access_modes: Vec<Text<'a>>,
    /// `volumeMode`
    pub volume_mode: Option<Text<'a>>,
    /// `mountOptions`
    #[serde(deserialize_with = "nullable")]
    pub mount_options: Vec<Text<'a>>,
    /// `persistentVolumeReclaimPolicy`
    pub persistent_volume_reclaim_policy: Option<Text<'a>>,
    /// `storageClassName`
    pub storage_class_name: Option<Text<'a>>,
    /// `volumeAttributesClassName`
    pub volume_attributes_class_name: Option<Text<'a>>,
    node_affinity: Option<Affinity<'a>>,
}

/// The fields of `spec.csi` that this program reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Csi<'a> {
    /// `driver`
    pub driver: Option<Text<'a>>,
    /// `volumeHandle`
    pub volume_handle: Option<Text<'a>>,
    /// `readOnly`
    pub read_only: Option<bool>,
    /// `fsType`
    pub fs_type: Option<Text<'a>>,
    /// `volumeAttributes`
    pub volume_attributes: Pairs<'a>,
    /// `controllerPublishSecretRef`
    pub controller_publish_secret_ref: Option<Reference<'a>>,
    /// `controllerExpandSecretRef`
    pub controller_expand_secret_ref: Option<Reference<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Affinity<'a> {
    #[serde(borrow)]
    required: Option<&'a RawValue>,
}

impl Spec<'_> {
    /// Whether the volume is a raw block device.
    #[must_use]
    pub fn is_block(&self) -> bool {
        self.volume_mode.as_deref() == Some("Block")
    }

    /// `nodeAffinity.required`, as JSON.
    #[must_use]
    pub fn affinity(&self) -> Option<&str> {
        let required = self.node_affinity.as_ref()?.required?;
        Some(required.get())
    }

    /// Takes the in-tree source out of a volume, and returns it with the other fields that its
    /// translation to CSI reads, except the affinity; `None` for other volumes. Such volumes are
    /// rare.
    pub fn take_in_tree(&mut self, metadata: &Meta<'_>) -> Option<Value> {
        if self.csi.is_some() {
            return None;
        }
        let sources = [
            ("awsElasticBlockStore", &mut self.aws_elastic_block_store),
            ("gcePersistentDisk", &mut self.gce_persistent_disk),
            ("cinder", &mut self.cinder),
            ("azureDisk", &mut self.azure_disk),
            ("azureFile", &mut self.azure_file),
            ("vsphereVolume", &mut self.vsphere_volume),
            ("portworxVolume", &mut self.portworx_volume),
        ];
        let mut sources = sources.into_iter();
        let (field, source) = sources.find_map(|(field, source)| Some((field, source.take()?)))?;
        let texts = |pairs: &Pairs<'_>| -> Value {
            let pairs = pairs.iter();
            pairs.map(|(key, value)| (&**key, &**value)).collect()
        };
        let claim = self.claim_ref.as_ref();
        Some(json!({
            "metadata": {
                "name": metadata.name.as_deref(),
                "labels": texts(&metadata.labels),
                "annotations": texts(&metadata.annotations),
            },
            "spec": {
                "claimRef": { "namespace": claim.and_then(|claim| claim.namespace.as_deref()) },
                "accessModes": self.access_modes.iter().map(|mode| &**mode).collect::<Value>(),
                field: source,
            },
        }))
    }
}

/// Applies `read` to the spec of a volume that is given as a JSON value.
///
/// # Errors
/// The value is not a volume.
pub fn read_spec<T>(
    volume: &Value,
    read: impl FnOnce(&Spec<'_>) -> T,
) -> Result<T, serde_json::Error> {
    let spec = volume.get("spec").unwrap_or(&Value::Null).to_string();
    Ok(read(&serde_json::from_str(&spec)?))
}
