//! VolumeSnapshotClasses on the wire.

use serde::Deserialize;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, Meta, Object, interned, nullable, pairs};

use crate::model::Class;

/// A VolumeSnapshotClass on the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClassWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    metadata: Meta<'a>,
    #[serde(borrow)]
    driver: Option<lean::Text<'a>>,
    #[serde(borrow)]
    parameters: lean::Pairs<'a>,
}

impl Object for ClassWire<'_> {
    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }
}

impl Record for Class {
    type Wire<'a> = ClassWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        Some(Self {
            driver: interned(&wire.driver, strings),
            parameters: pairs(&wire.parameters, strings),
        })
    }
}
