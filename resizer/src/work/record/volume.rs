//! PersistentVolumes on the wire.

use serde::Deserialize;
use serde::de::IgnoredAny;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, list, nullable, own, shared};

use super::{interned, quantity};
use crate::keys::{MODIFY_SECRET_NAME, MODIFY_SECRET_NAMESPACE, PRE_RESIZE_CAPACITY};
use crate::model::{
    ClaimRef, CsiSource, PreResize, SecretRef, Source, Text, Uid, Volume, VolumeKind,
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
    aws_elastic_block_store: Option<IgnoredAny>,
    gce_persistent_disk: Option<IgnoredAny>,
    cinder: Option<IgnoredAny>,
    azure_disk: Option<IgnoredAny>,
    azure_file: Option<IgnoredAny>,
    vsphere_volume: Option<IgnoredAny>,
    portworx_volume: Option<IgnoredAny>,
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
        let VolumeWire { metadata, spec, .. } = wire;
        let annotation = |key| { metadata.annotations.get(key) }.filter(|text| !text.is_empty());
        let secret = annotation(MODIFY_SECRET_NAME).zip(annotation(MODIFY_SECRET_NAMESPACE));
        let claim = spec.claim_ref.as_ref();
        let kind = VolumeKind {
            source: source(&spec, strings),
            access_modes: list(&spec.access_modes, strings),
            block: spec.volume_mode.as_deref() == Some("Block"),
            mount_options: list(&spec.mount_options, strings),
            class: shared(&spec.volume_attributes_class_name, strings),
            modify_secret: secret.map(|(name, namespace)| SecretRef {
                namespace: strings.intern(namespace),
                name: strings.intern(name),
            }),
        };
        Some(Self {
            handle: match &spec.csi {
                Some(csi) => own(&csi.volume_handle),
                None => Text::default(),
            },
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

fn source(spec: &SpecWire<'_>, strings: &Interner) -> Source {
    if let Some(csi) = &spec.csi {
        let secret = csi.controller_expand_secret_ref.as_ref();
        return Source::Csi(CsiSource {
            driver: interned(&csi.driver, strings),
            fs_type: interned(&csi.fs_type, strings),
            expand_secret: secret.map(|secret| SecretRef {
                namespace: interned(&secret.namespace, strings),
                name: interned(&secret.name, strings),
            }),
        });
    }
    let plugins = [
        (&spec.aws_elastic_block_store, "kubernetes.io/aws-ebs"),
        (&spec.gce_persistent_disk, "kubernetes.io/gce-pd"),
        (&spec.cinder, "kubernetes.io/cinder"),
        (&spec.azure_disk, "kubernetes.io/azure-disk"),
        (&spec.azure_file, "kubernetes.io/azure-file"),
        (&spec.vsphere_volume, "kubernetes.io/vsphere-volume"),
        (&spec.portworx_volume, "kubernetes.io/portworx-volume"),
    ];
    let mut set = plugins.into_iter().filter(|(source, _)| source.is_some());
    set.next()
        .map_or(Source::Other, |(_, name)| Source::InTree(name))
}
