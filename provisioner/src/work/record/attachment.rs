//! VolumeAttachments on the wire.

use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, interned, own};
use sidecar::kube::objects::attachment::Spec;

use crate::model::Attachment;

impl Record for Attachment {
    type Wire<'a> = lean::Parts<'a, Spec<'a>>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let volume = wire.spec.source.persistent_volume_name;
        volume.as_ref()?;
        Some(Self {
            volume: own(&volume),
            node: interned(&wire.spec.node_name, strings),
        })
    }
}
