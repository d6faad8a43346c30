//! PersistentVolumes on the wire.
//!
//! Separate, because of most of them nothing is kept but the name.

use serde::Deserialize;
use serde::de::IgnoredAny;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, list, nullable, own, shared};

use super::{ReferenceWire, interned};
use crate::keys::{
    BETA_STORAGE_CLASS, DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE, MIGRATED_TO,
    PROVISIONED_BY,
};
use crate::model::{
    AffinityExpression, AffinityTerm, ClaimRef, Csi, Owner, Reclaim, Source, Volume, VolumeDetail,
    VolumeMode, VolumePhase,
};

/// A PersistentVolume on the wire.
pub type VolumeWire<'a> = lean::Parts<'a, SpecWire<'a>, StatusWire<'a>>;

/// What is read of `spec`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SpecWire<'a> {
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
    #[serde(borrow)]
    persistent_volume_reclaim_policy: Option<lean::Text<'a>>,
    #[serde(borrow)]
    storage_class_name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    volume_mode: Option<lean::Text<'a>>,
    #[serde(borrow)]
    node_affinity: Option<AffinityWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CsiWire<'a> {
    #[serde(borrow)]
    driver: Option<lean::Text<'a>>,
    #[serde(borrow)]
    volume_handle: Option<lean::Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AffinityWire<'a> {
    #[serde(borrow)]
    required: Option<SelectorWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SelectorWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    node_selector_terms: Vec<TermWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TermWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    match_expressions: Vec<ExpressionWire<'a>>,
    #[serde(deserialize_with = "nullable")]
    match_fields: Vec<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ExpressionWire<'a> {
    #[serde(borrow)]
    key: Option<lean::Text<'a>>,
    #[serde(borrow)]
    operator: Option<lean::Text<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    values: Vec<lean::Text<'a>>,
}

/// What is read of `status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct StatusWire<'a> {
    #[serde(borrow)]
    phase: Option<lean::Text<'a>>,
}

impl Record for Volume {
    type Wire<'a> = VolumeWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        Some(read_volume(wire, strings).keep())
    }
}

/// The volume in full: for volumes read one by one.
#[must_use]
pub fn read_volume(wire: VolumeWire<'_>, strings: &Interner) -> VolumeDetail {
    let VolumeWire {
        metadata,
        spec,
        status,
    } = wire;
    let annotations = &metadata.annotations;
    let annotation = |key| annotations.get(key).map(|text| strings.intern(text));
    VolumeDetail {
        name: own(&metadata.name),
        uid: own(&metadata.uid),
        version: metadata.version(),
        deleting: metadata.deletion_timestamp.is_some(),
        finalizers: list(&metadata.finalizers, strings),
        owner: Owner {
            provisioned_by: annotation(PROVISIONED_BY),
            migrated_to: annotation(MIGRATED_TO),
            csi_driver: { spec.csi.as_ref() }.map(|csi| interned(&csi.driver, strings)),
        },
        phase: VolumePhase::parse(status.phase.as_deref().unwrap_or_default()),
        reclaim: Reclaim::parse(
            { spec.persistent_volume_reclaim_policy.as_deref() }.unwrap_or_default(),
        ),
        class: annotation(BETA_STORAGE_CLASS)
            .or_else(|| shared(&spec.storage_class_name, strings))
            .unwrap_or_default(),
        class_field: shared(&spec.storage_class_name, strings).unwrap_or_default(),
        claim: { spec.claim_ref.as_ref() }.map(|claim| ClaimRef {
            namespace: interned(&claim.namespace, strings),
            name: own(&claim.name),
            uid: own(&claim.uid),
        }),
        mode: spec.volume_mode.as_deref().map(VolumeMode::parse),
        source: source(&spec, strings),
        deletion_secret_name: annotation(DELETION_SECRET_NAME),
        deletion_secret_namespace: annotation(DELETION_SECRET_NAMESPACE),
        affinity: { spec.node_affinity.as_ref() }
            .and_then(|affinity| affinity.required.as_ref())
            .map(|selector| {
                let terms = selector.node_selector_terms.iter();
                terms.map(|wire| term(wire, strings)).collect()
            }),
    }
}

fn source(spec: &SpecWire<'_>, strings: &Interner) -> Source {
    if let Some(csi) = &spec.csi {
        return Source::Csi(Csi {
            driver: interned(&csi.driver, strings),
            handle: own(&csi.volume_handle),
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

fn term(wire: &TermWire<'_>, strings: &Interner) -> AffinityTerm {
    let expressions = wire
        .match_expressions
        .iter()
        .map(|wire| AffinityExpression {
            key: interned(&wire.key, strings),
            operator: interned(&wire.operator, strings),
            values: list(&wire.values, strings),
        });
    AffinityTerm {
        expressions: expressions.collect(),
        fields: !wire.match_fields.is_empty(),
    }
}
