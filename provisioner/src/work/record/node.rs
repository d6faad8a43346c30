//! Nodes and CSINodes on the wire.
//!
//! Separate, because a Node's status, which is most of it, must never be built.

use serde::Deserialize;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, Meta, Object, list, nullable, pairs};

use super::interned;
use crate::model::{CsiNode, DriverKeys, Node};

/// A Node on the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    metadata: Meta<'a>,
}

/// A CSINode on the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiNodeWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    metadata: Meta<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    spec: SpecWire<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SpecWire<'a> {
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

impl Object for NodeWire<'_> {
    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }
}

impl Record for Node {
    type Wire<'a> = NodeWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let labels = pairs(&wire.metadata.labels, strings);
        Some(Self { labels })
    }
}

impl Object for CsiNodeWire<'_> {
    fn meta(&self) -> &Meta<'_> {
        &self.metadata
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
