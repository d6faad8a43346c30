//! VolumeAttributesClasses on the wire.

use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{interned, own, pairs};
use sidecar::kube::objects::class;

use crate::model::AttributesClass;

impl Record for AttributesClass {
    type Wire<'a> = class::AttributesClass<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        Some(Self {
            uid: own(&wire.metadata.uid),
            driver: interned(&wire.driver_name, strings),
            parameters: pairs(&wire.parameters, strings),
        })
    }
}
