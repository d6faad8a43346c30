//! ReferenceGrants on the wire.

use serde::Deserialize;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, interned, nullable, shared};

use crate::model::{Grant, GrantFrom, GrantTo};

/// A ReferenceGrant on the wire.
pub type GrantWire<'a> = lean::Parts<'a, SpecWire<'a>>;

/// The fields of `spec` that the provisioner reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SpecWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    from: Vec<PeerWire<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    to: Vec<PeerWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PeerWire<'a> {
    #[serde(borrow)]
    group: Option<lean::Text<'a>>,
    #[serde(borrow)]
    kind: Option<lean::Text<'a>>,
    #[serde(borrow)]
    namespace: Option<lean::Text<'a>>,
    #[serde(borrow)]
    name: Option<lean::Text<'a>>,
}

impl Record for Grant {
    type Wire<'a> = GrantWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let from = wire.spec.from.iter().map(|peer| GrantFrom {
            group: interned(&peer.group, strings),
            kind: interned(&peer.kind, strings),
            namespace: interned(&peer.namespace, strings),
        });
        let to = wire.spec.to.iter().map(|peer| GrantTo {
            group: interned(&peer.group, strings),
            kind: interned(&peer.kind, strings),
            name: shared(&peer.name, strings),
        });
        Some(Self {
            namespace: interned(&wire.metadata.namespace, strings),
            from: from.collect(),
            to: to.collect(),
        })
    }
}
