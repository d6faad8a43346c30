//! Nodes and CSINodes on the wire.

use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{interned, list};
use sidecar::kube::objects::node;

use crate::model::{CsiNode, DriverKeys, Node, Pairs};

impl Record for Node {
    type Wire<'a> = node::Node<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let metadata = wire.metadata;
        let mut labels: Vec<(&str, &str)> = metadata
            .labels
            .iter()
            .map(|(key, value)| (&**key, &**value))
            .collect();
        labels.sort_unstable();
        let name = metadata.name.as_deref();
        // The node's name is a label, so that no other node has the same map: sharing the name and the map would cost
        // more than it saves.
        let texts = labels.into_iter().flat_map(|(key, value)| {
            let is_name = Some(value) == name;
            let value = if is_name {
                value.into()
            } else {
                strings.intern(value)
            };
            [strings.intern(key), value]
        });
        Some(Self {
            labels: Pairs::new(texts.collect()),
        })
    }
}

impl Record for CsiNode {
    type Wire<'a> = node::CsiNode<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let drivers = wire.spec.drivers.iter().map(|driver| DriverKeys {
            name: interned(&driver.name, strings),
            keys: list(&driver.topology_keys, strings),
        });
        Some(Self {
            drivers: strings.share(drivers.collect()),
        })
    }
}
