//! PersistentVolumeClaims on the wire.
//!
//! Most of them turn out to be uninteresting before anything of them is copied.

use jiff::Timestamp;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, interned, list, own, pairs, seconds, shared};
use sidecar::kube::objects::{Phase, claim, quantity};
use sidecar::lifecycle::{Id, Lifecycle, Look, Step};

use crate::keys::{
    ALPHA_SELECTED_NODE, BETA_STORAGE_PROVISIONER, CLONE_FINALIZER, MIGRATED_TO, SELECTED_NODE,
    STORAGE_PROVISIONER,
};
use crate::model::{Claim, ClaimPhase, DataSource, VolumeMode};
use crate::plan::lifecycle::{ClaimSeen, of_claim};

/// A PersistentVolumeClaim on the wire.
pub type ClaimWire<'a> = lean::Parts<'a, claim::Spec<'a>, Phase<'a>>;

impl Record for Claim {
    type Wire<'a> = ClaimWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        if is_quiet(&wire) {
            return None;
        }
        Some(read_claim(wire, strings)).filter(Self::is_actionable)
    }

    fn steps<'w>(wire: &'w Self::Wire<'_>, look: Look, measured: &Lifecycle) -> Vec<Step<'w>> {
        of_claim(&seen(wire, measured.driver()), look, measured.node())
    }

    fn lifecycle_id(&self) -> Option<Id> {
        Some(Id::of(&self.uid))
    }
}

/// What is looked at of a claim, whether or not it is kept.
fn seen<'w>(wire: &'w ClaimWire<'_>, driver: &str) -> ClaimSeen<'w> {
    let annotation = |key| wire.metadata.annotations.get(key).map(|text| &**text);
    let provisioner = annotation(STORAGE_PROVISIONER).or(annotation(BETA_STORAGE_PROVISIONER));
    let node = annotation(SELECTED_NODE).or(annotation(ALPHA_SELECTED_NODE));
    ClaimSeen {
        uid: wire.metadata.uid.as_deref().unwrap_or_default(),
        created: seconds(wire.metadata.creation_timestamp.as_deref()),
        deleting: wire.metadata.deletion_timestamp.is_some(),
        ours: provisioner == Some(driver) || annotation(MIGRATED_TO) == Some(driver),
        node: node.unwrap_or_default(),
        volume: wire.spec.volume_name.as_deref().unwrap_or_default(),
        phase: ClaimPhase::parse(wire.status.text()),
    }
}

/// Whether it is bound and without our finalizers, as most are; the record decides about all others.
fn is_quiet(wire: &ClaimWire<'_>) -> bool {
    let ours = |held: &lean::Text<'_>| **held == *CLONE_FINALIZER;
    let volume = wire.spec.volume_name.as_deref();
    volume.is_some_and(|name| !name.is_empty())
        && wire.status.text() == "Bound"
        && !wire.metadata.finalizers.iter().any(ours)
}

/// The record, whether or not anything is due for it: for claims that are read one by one.
#[must_use]
pub fn read_claim(wire: ClaimWire<'_>, strings: &Interner) -> Claim {
    let ClaimWire {
        metadata,
        spec,
        status,
    } = wire;
    let requests = spec.resources.requests;
    Claim {
        namespace: interned(&metadata.namespace, strings),
        name: own(&metadata.name),
        uid: own(&metadata.uid),
        version: metadata.version(),
        created: time(metadata.creation_timestamp.as_ref()),
        deleting: metadata.deletion_timestamp.is_some(),
        deleted: time(metadata.deletion_timestamp.as_ref()),
        finalizers: list(&metadata.finalizers, strings),
        annotations: pairs(&metadata.annotations, strings),
        class: shared(&spec.storage_class_name, strings),
        volume: own(&spec.volume_name),
        access_modes: list(&spec.access_modes, strings),
        mode: spec.volume_mode.as_deref().map(VolumeMode::parse),
        selector: spec.selector.is_some(),
        request: quantity(requests.get("storage")),
        data_source: spec.data_source.map(|wire| DataSource {
            namespace: None,
            ..data_source(&wire, strings)
        }),
        data_source_ref: spec.data_source_ref.map(|wire| data_source(&wire, strings)),
        attributes_class: shared(&spec.volume_attributes_class_name, strings),
        phase: ClaimPhase::parse(status.text()),
    }
}

fn time(text: Option<&lean::Text<'_>>) -> Option<Timestamp> {
    text?.parse().ok()
}

fn data_source(wire: &claim::DataSource<'_>, strings: &Interner) -> DataSource {
    DataSource {
        group: shared(&wire.api_group, strings),
        kind: interned(&wire.kind, strings),
        name: interned(&wire.name, strings),
        namespace: shared(&wire.namespace, strings),
    }
}
