//! PersistentVolumes on the wire.

use migration::TRANSLATOR;
use serde::Deserialize;
use serde_json::{Value, json};
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, list, nullable, own, shared};

use super::{interned, quantity};
use crate::keys::{MODIFY_SECRET_NAME, MODIFY_SECRET_NAMESPACE, PRE_RESIZE_CAPACITY};
use crate::model::{
    ClaimRef, CsiSource, InTree, List, PreResize, SecretRef, Source, Text, Uid, Volume, VolumeKind,
};

/// A PersistentVolume on the wire.
type VolumeWire<'a> = lean::Parts<'a, SpecWire<'a>>;

/// What is read of `spec`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SpecWire<'a> {
    #[serde(borrow)]
    capacity: lean::Pairs<'a>,
    #[serde(borrow)]
    csi: Option<CsiWire<'a>>,
    aws_elastic_block_store: Option<Value>,
    gce_persistent_disk: Option<Value>,
    cinder: Option<Value>,
    azure_disk: Option<Value>,
    azure_file: Option<Value>,
    vsphere_volume: Option<Value>,
    portworx_volume: Option<Value>,
    #[serde(borrow)]
    claim_ref: Option<ReferenceWire<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    access_modes: Vec<lean::Text<'a>>,
    #[serde(borrow)]
    volume_mode: Option<lean::Text<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    mount_options: Vec<lean::Text<'a>>,
    #[serde(borrow)]
    volume_attributes_class_name: Option<lean::Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CsiWire<'a> {
    #[serde(borrow)]
    driver: Option<lean::Text<'a>>,
    #[serde(borrow)]
    volume_handle: Option<lean::Text<'a>>,
    #[serde(borrow)]
    fs_type: Option<lean::Text<'a>>,
    #[serde(borrow)]
    controller_expand_secret_ref: Option<ReferenceWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ReferenceWire<'a> {
    #[serde(borrow)]
    namespace: Option<lean::Text<'a>>,
    #[serde(borrow)]
    name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    uid: Option<lean::Text<'a>>,
}

impl Record for Volume {
    type Wire<'a> = VolumeWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let VolumeWire {
            metadata, mut spec, ..
        } = wire;
        let annotation = |key| {
            metadata
                .annotations
                .get(key)
                .filter(|text| !text.is_empty())
        };
        let secret = annotation(MODIFY_SECRET_NAME).zip(annotation(MODIFY_SECRET_NAMESPACE));
        let in_tree = in_tree(&metadata, &mut spec);
        let claim = spec.claim_ref.as_ref();
        let known = match in_tree {
            Some(object) => Known::translated(&object, &spec, strings),
            None => Known::native(&spec, strings),
        };
        let kind = VolumeKind {
            source: known.source,
            access_modes: known.access_modes,
            block: spec.volume_mode.as_deref() == Some("Block"),
            mount_options: list(&spec.mount_options, strings),
            class: shared(&spec.volume_attributes_class_name, strings),
            modify_secret: secret.map(|(name, namespace)| SecretRef {
                namespace: strings.intern(namespace),
                name: strings.intern(name),
            }),
        };
        Some(Self {
            handle: known.handle,
            capacity: quantity(spec.capacity.get("storage")),
            claim: claim.map(|claim| ClaimRef {
                namespace: interned(&claim.namespace, strings),
                uid: Uid::new(claim.uid.as_deref().unwrap_or_default()),
            }),
            pre_resize: { metadata.annotations.get(PRE_RESIZE_CAPACITY) }.map(|text| {
                Box::new(PreResize {
                    capacity: strings.intern(text),
                    claim: claim.map(|claim| own(&claim.name)).unwrap_or_default(),
                })
            }),
            kind: strings.share(kind),
        })
    }
}

/// How its driver knows a volume.
struct Known {
    source: Source,
    handle: Text,
    access_modes: List,
}

impl Known {
    fn native(spec: &SpecWire<'_>, strings: &Interner) -> Self {
        let csi = spec.csi.as_ref();
        Self {
            source: csi.map_or(Source::Other, |csi| Source::Csi(csi_source(csi, strings))),
            handle: csi.map(|csi| own(&csi.volume_handle)).unwrap_or_default(),
            access_modes: list(&spec.access_modes, strings),
        }
    }

    /// With an in-tree source, in the words of the driver that replaced the plugin.
    fn translated(object: &Value, spec: &SpecWire<'_>, strings: &Interner) -> Self {
        let native = Self::native(spec, strings);
        let Some(driver) = TRANSLATOR.of_volume(object) else {
            return native;
        };
        let (csi, native) = match in_words_of_csi(object, strings) {
            Ok((csi, translated)) => (Ok(csi), translated),
            Err(why) => (Err(why.into()), native),
        };
        let driver = driver.name;
        Self {
            source: Source::InTree(Box::new(InTree { driver, csi })),
            ..native
        }
    }
}

fn in_words_of_csi(object: &Value, strings: &Interner) -> Result<(CsiSource, Known), String> {
    let volume = TRANSLATOR.volume_to_csi(object);
    let volume = volume.map_err(|error| error.to_string())?;
    let spec = volume.get("spec").unwrap_or(&Value::Null);
    let wire = SpecWire::deserialize(spec).map_err(|error| error.to_string())?;
    let csi = wire.csi.as_ref().map(|csi| csi_source(csi, strings));
    Ok((csi.unwrap_or_default(), Known::native(&wire, strings)))
}

fn csi_source(csi: &CsiWire<'_>, strings: &Interner) -> CsiSource {
    let secret = csi.controller_expand_secret_ref.as_ref();
    CsiSource {
        driver: interned(&csi.driver, strings),
        fs_type: interned(&csi.fs_type, strings),
        expand_secret: secret.map(|secret| SecretRef {
            namespace: interned(&secret.namespace, strings),
            name: interned(&secret.name, strings),
        }),
    }
}

/// What a translation reads of a volume with an in-tree source, which is rare; `None` for others.
fn in_tree(metadata: &lean::Meta<'_>, spec: &mut SpecWire<'_>) -> Option<Value> {
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
    let claim = spec.claim_ref.as_ref();
    Some(json!({
        "metadata": {
            "name": metadata.name.as_deref(),
            "labels": texts(&metadata.labels),
            "annotations": texts(&metadata.annotations),
        },
        "spec": {
            "claimRef": { "namespace": claim.and_then(|claim| claim.namespace.as_deref()) },
            "accessModes": spec.access_modes.iter().map(|mode| &**mode).collect::<Value>(),
            field: source,
        },
    }))
}
