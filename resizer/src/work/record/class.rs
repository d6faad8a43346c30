//! VolumeAttributesClasses on the wire.

use serde::Deserialize;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, Meta, Object, nullable, own, pairs};

use super::interned;
use crate::model::AttributesClass;

/// A VolumeAttributesClass on the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClassWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    metadata: Meta<'a>,
    #[serde(borrow)]
    driver_name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    parameters: lean::Pairs<'a>,
}

impl Object for ClassWire<'_> {
    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }
}

impl Record for AttributesClass {
    type Wire<'a> = ClassWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        Some(Self {
            uid: own(&wire.metadata.uid),
            driver: interned(&wire.driver_name, strings),
            parameters: pairs(&wire.parameters, strings),
        })
    }
}
