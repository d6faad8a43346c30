//! Nodes on the wire.

use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, pairs};

use crate::model::Node;

impl Record for Node {
    type Wire<'a> = lean::Parts<'a, serde::de::IgnoredAny>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        Some(Self {
            labels: pairs(&wire.metadata.labels, strings),
        })
    }
}
