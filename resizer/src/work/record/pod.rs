//! Pods on the wire.
//!
//! Most of a pod is its containers, which the parser skips.

use serde::Deserialize;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, interned, nullable};
use sidecar::kube::objects::Phase;

use crate::model::Pod;

/// A Pod on the wire.
type PodWire<'a> = lean::Parts<'a, SpecWire<'a>, Phase<'a>>;

/// `spec`, as far as the resizer reads it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SpecWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    volumes: Vec<VolumeWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeWire<'a> {
    #[serde(borrow)]
    persistent_volume_claim: Option<UseWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct UseWire<'a> {
    #[serde(borrow)]
    claim_name: Option<lean::Text<'a>>,
}

impl Record for Pod {
    type Wire<'a> = PodWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let volumes = wire.spec.volumes.iter();
        let uses = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
        let names = uses.filter_map(|claim| claim.claim_name.as_deref());
        // Most claims belong to one pod: sharing their names would not pay.
        let claims = names.map(Into::into).collect();
        let namespace = interned(&wire.metadata.namespace, strings);
        Self::new(namespace, wire.status.text(), claims)
    }
}
