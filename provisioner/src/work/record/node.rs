//! Nodes and CSINodes on the wire.
//!
//! A Node's status, which is most of it, must never be built.

use serde::Deserialize;
use serde::de::IgnoredAny;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, list, nullable, pairs};

use super::interned;
use crate::model::{CsiNode, DriverKeys, Node};

/// A Node on the wire.
pub type NodeWire<'a> = lean::Parts<'a, IgnoredAny>;

/// A CSINode on the wire.
pub type CsiNodeWire<'a> = lean::Parts<'a, SpecWire<'a>>;

/// What is read of `spec`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SpecWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    drivers: Vec<DriverWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DriverWire<'a> {
    #[serde(borrow)]
    name: Option<lean::Text<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    topology_keys: Vec<lean::Text<'a>>,
}

impl Record for Node {
    type Wire<'a> = NodeWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let labels = pairs(&wire.metadata.labels, strings);
        Some(Self { labels })
    }
}

impl Record for CsiNode {
    type Wire<'a> = CsiNodeWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let drivers = wire.spec.drivers.iter().map(|driver| DriverKeys {
            name: interned(&driver.name, strings),
            keys: list(&driver.topology_keys, strings),
        });
        Some(Self {
            drivers: drivers.collect(),
        })
    }
}
