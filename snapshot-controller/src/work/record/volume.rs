//! PersistentVolumes on the wire.

use serde::Deserialize;
use serde_json::value::RawValue;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, own};

use super::interned;
use crate::model::{ClaimRef, Csi, Uid, Volume};

/// A PersistentVolume on the wire.
type VolumeWire<'a> = lean::Parts<'a, SpecWire<'a>>;

/// What is read of `spec`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SpecWire<'a> {
    #[serde(borrow)]
    csi: Option<CsiWire<'a>>,
    #[serde(borrow)]
    claim_ref: Option<ClaimRefWire<'a>>,
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
struct ClaimRefWire<'a> {
    #[serde(borrow)]
    namespace: Option<lean::Text<'a>>,
    #[serde(borrow)]
    name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    uid: Option<lean::Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AffinityWire<'a> {
    #[serde(borrow)]
    required: Option<&'a RawValue>,
}

impl Record for Volume {
    type Wire<'a> = VolumeWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let spec = wire.spec;
        let affinity = spec.node_affinity.and_then(|affinity| affinity.required);
        Some(Self {
            csi: spec.csi.map(|csi| Csi {
                driver: interned(&csi.driver, strings),
                handle: own(&csi.volume_handle),
            }),
            claim: spec.claim_ref.map(|claim| ClaimRef {
                namespace: interned(&claim.namespace, strings),
                name: own(&claim.name),
                uid: { claim.uid.as_deref() }
                    .filter(|uid| !uid.is_empty())
                    .map(Uid::new),
            }),
            mode: spec.volume_mode.as_deref().map(|mode| strings.intern(mode)),
            affinity: affinity.map(|json| strings.intern(json.get())),
        })
    }
}
