//! Reads objects of the API server into the records of [`model`](crate::model).
//!
//! How an object reads on the wire is the API's affair. Nothing an API server may send fails to
//! decode: absent and `null` are alike everywhere.

use std::sync::Arc;

use migration::TRANSLATOR;
use serde::Deserialize;
use serde_json::{Value, json};
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, list, nullable, own, pairs};
use uuid::Uuid;

use super::kept::KeptVolume;
use crate::keys::{MIGRATED_TO_ANNOTATION, NODE_ID_ANNOTATION};
use crate::model::{
    Attachment, CsiNode, CsiSource, InTree, List, Pairs, SecretRef, Source, Volume, VolumeError,
    VolumeSpec,
};

/// A VolumeAttachment on the wire.
pub type AttachmentWire<'a> = lean::Parts<'a, AttachmentSpecWire<'a>, StatusWire<'a>>;

/// What is read of `spec`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AttachmentSpecWire<'a> {
    #[serde(borrow)]
    attacher: Option<lean::Text<'a>>,
    #[serde(borrow)]
    node_name: Option<lean::Text<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    source: SourceWire<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SourceWire<'a> {
    #[serde(borrow)]
    persistent_volume_name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    inline_volume_spec: Option<VolumeSpecWire<'a>>,
}

/// What is read of `status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusWire<'a> {
    attached: Option<bool>,
    #[serde(borrow)]
    attachment_metadata: lean::Pairs<'a>,
    attach_error: Option<ErrorWire>,
    detach_error: Option<ErrorWire>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ErrorWire {
    message: Option<String>,
    time: Option<String>,
    error_code: Option<i32>,
}

/// A PersistentVolume on the wire.
pub type VolumeWire<'a> = lean::Parts<'a, VolumeSpecWire<'a>>;

/// What is read of `spec`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeSpecWire<'a> {
    #[serde(borrow)]
    csi: Option<CsiWire<'a>>,
    aws_elastic_block_store: Option<Value>,
    gce_persistent_disk: Option<Value>,
    cinder: Option<Value>,
    azure_disk: Option<Value>,
    azure_file: Option<Value>,
    vsphere_volume: Option<Value>,
    portworx_volume: Option<Value>,
    #[serde(borrow, deserialize_with = "nullable")]
    claim_ref: ClaimRefWire<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    access_modes: Vec<lean::Text<'a>>,
    #[serde(borrow)]
    volume_mode: Option<lean::Text<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    mount_options: Vec<lean::Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimRefWire<'a> {
    #[serde(borrow)]
    namespace: Option<lean::Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CsiWire<'a> {
    #[serde(borrow)]
    driver: Option<lean::Text<'a>>,
    #[serde(borrow)]
    volume_handle: Option<lean::Text<'a>>,
    read_only: Option<bool>,
    #[serde(borrow)]
    fs_type: Option<lean::Text<'a>>,
    #[serde(borrow)]
    volume_attributes: lean::Pairs<'a>,
    #[serde(borrow)]
    controller_publish_secret_ref: Option<SecretRefWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SecretRefWire<'a> {
    #[serde(borrow)]
    name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    namespace: Option<lean::Text<'a>>,
}

/// A CSINode on the wire.
pub type CsiNodeWire<'a> = lean::Parts<'a, CsiNodeSpecWire<'a>>;

/// What is read of `spec`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiNodeSpecWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    drivers: Vec<DriverWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DriverWire<'a> {
    #[serde(borrow)]
    name: Option<lean::Text<'a>>,
    #[serde(borrow, rename = "nodeID")]
    node_id: Option<lean::Text<'a>>,
}

impl Record for Attachment {
    type Wire<'a> = AttachmentWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let AttachmentWire {
            metadata,
            spec,
            status,
        } = wire;
        let shared = |text| lean::shared(text, strings);
        Some(Self {
            name: own(&metadata.name),
            uid: own(&metadata.uid),
            version: metadata.version(),
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers: list(&metadata.finalizers, strings),
            node_id: { metadata.annotations.get(NODE_ID_ANNOTATION) }
                .map(|text| strings.intern(text)),
            attacher: shared(&spec.attacher).unwrap_or_default(),
            node: shared(&spec.node_name).unwrap_or_default(),
            volume: shared(&spec.source.persistent_volume_name),
            inline: { spec.source.inline_volume_spec }
                .map(|spec| Arc::new(volume_spec(&spec, strings))),
            attached: status.attached.unwrap_or_default(),
            metadata: pairs(&status.attachment_metadata, strings),
            attach_error: status.attach_error.map(error),
            detach_error: status.detach_error.map(error),
        })
    }
}

impl Record for KeptVolume {
    type Wire<'a> = VolumeWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let VolumeWire {
            metadata, mut spec, ..
        } = wire;
        let volume = Volume {
            uid: { metadata.uid.as_deref() }.and_then(|text| Uuid::parse_str(text).ok()),
            deleting: metadata.deletion_timestamp.is_some(),
            // The API server does not tell an empty list from an absent one.
            finalizers: (!metadata.finalizers.is_empty())
                .then(|| list(&metadata.finalizers, strings)),
            migrated_to: { metadata.annotations.get(MIGRATED_TO_ANNOTATION) }
                .map(|text| strings.intern(text)),
            spec: match in_tree(&metadata, &mut spec) {
                Some(object) => translated(&object, &spec, strings),
                None => volume_spec(&spec, strings),
            },
        };
        Some(Self::new(volume, strings))
    }
}

impl Record for CsiNode {
    type Wire<'a> = CsiNodeWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let entries = wire.spec.drivers.iter();
        // An id is one node's alone: sharing it would cost more than it saves.
        let texts = entries.flat_map(|driver| {
            let name = driver.name.as_deref().unwrap_or_default();
            [strings.intern(name), own(&driver.node_id)]
        });
        Some(Self {
            drivers: Pairs::new(texts.collect()),
        })
    }
}

fn error(wire: ErrorWire) -> Arc<VolumeError> {
    Arc::new(VolumeError {
        message: wire.message,
        time: wire.time,
        code: wire.error_code,
    })
}

fn volume_spec(wire: &VolumeSpecWire<'_>, strings: &Interner) -> VolumeSpec {
    VolumeSpec {
        source: match &wire.csi {
            Some(csi) => Source::Csi(csi_source(csi, strings)),
            None => Source::Other,
        },
        access_modes: list(&wire.access_modes, strings),
        block: wire.volume_mode.as_deref() == Some("Block"),
        mount_options: list(&wire.mount_options, strings),
    }
}

fn csi_source(wire: &CsiWire<'_>, strings: &Interner) -> CsiSource {
    let secret = wire.controller_publish_secret_ref.as_ref();
    CsiSource {
        driver: strings.intern(wire.driver.as_deref().unwrap_or_default()),
        handle: own(&wire.volume_handle),
        read_only: wire.read_only.unwrap_or_default(),
        fs_type: strings.intern(wire.fs_type.as_deref().unwrap_or_default()),
        attributes: pairs(&wire.volume_attributes, strings),
        publish_secret: secret.map(|secret| {
            Arc::new(SecretRef {
                namespace: strings.intern(secret.namespace.as_deref().unwrap_or_default()),
                name: strings.intern(secret.name.as_deref().unwrap_or_default()),
            })
        }),
    }
}

/// What a translation reads of a volume with an in-tree source, which is rare; `None` for others.
fn in_tree(metadata: &lean::Meta<'_>, spec: &mut VolumeSpecWire<'_>) -> Option<Value> {
    if spec.csi.is_some() {
        return None;
    }
    let sources = [
        ("awsElasticBlockStore", &mut spec.aws_elastic_block_store),
        ("gcePersistentDisk", &mut spec.gce_persistent_disk),
        ("cinder", &mut spec.cinder),
        ("azureDisk", &mut spec.azure_disk),
        ("azureFile", &mut spec.azure_file),
        ("vsphereVolume", &mut spec.vsphere_volume),
        ("portworxVolume", &mut spec.portworx_volume),
    ];
    let mut sources = sources.into_iter();
    let (field, source) = sources.find_map(|(field, source)| Some((field, source.take()?)))?;
    let texts = |pairs: &lean::Pairs<'_>| -> Value {
        let pairs = pairs.iter();
        pairs.map(|(key, value)| (&**key, &**value)).collect()
    };
    Some(json!({
        "metadata": {
            "name": metadata.name.as_deref(),
            "labels": texts(&metadata.labels),
            "annotations": texts(&metadata.annotations),
        },
        "spec": {
            "claimRef": { "namespace": spec.claim_ref.namespace.as_deref() },
            "accessModes": spec.access_modes.iter().map(|mode| &**mode).collect::<Value>(),
            field: source,
        },
    }))
}

/// The specification of a volume with an in-tree source, in the words of the driver that replaced
/// the plugin.
fn translated(object: &Value, wire: &VolumeSpecWire<'_>, strings: &Interner) -> VolumeSpec {
    let spec = volume_spec(wire, strings);
    let Some(driver) = TRANSLATOR.of_volume(object) else {
        return spec;
    };
    let (csi, access_modes) = match in_words_of_csi(object, strings) {
        Ok((csi, access_modes)) => (Ok(csi), access_modes),
        Err(why) => (Err(why.into()), spec.access_modes),
    };
    let driver = driver.name;
    VolumeSpec {
        source: Source::InTree(Box::new(InTree { driver, csi })),
        access_modes,
        ..spec
    }
}

fn in_words_of_csi(object: &Value, strings: &Interner) -> Result<(CsiSource, List), String> {
    let volume = TRANSLATOR.volume_to_csi(object);
    let volume = volume.map_err(|error| error.to_string())?;
    let spec = volume.get("spec").unwrap_or(&Value::Null);
    let wire = VolumeSpecWire::deserialize(spec).map_err(|error| error.to_string())?;
    let csi = csi_source(&wire.csi.unwrap_or_default(), strings);
    Ok((csi, list(&wire.access_modes, strings)))
}

#[cfg(test)]
mod tests;
