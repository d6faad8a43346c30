//! VolumeAttachments on the wire.

use serde::Deserialize;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, nullable, own};

use super::interned;
use crate::model::Attachment;

/// A VolumeAttachment on the wire.
pub type AttachmentWire<'a> = lean::Parts<'a, SpecWire<'a>>;

/// What is read of `spec`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SpecWire<'a> {
    #[serde(borrow)]
    node_name: Option<lean::Text<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    source: SourceWire<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SourceWire<'a> {
    #[serde(borrow)]
    persistent_volume_name: Option<lean::Text<'a>>,
}

impl Record for Attachment {
    type Wire<'a> = AttachmentWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let volume = wire.spec.source.persistent_volume_name;
        volume.as_ref()?;
        Some(Self {
            volume: own(&volume),
            node: interned(&wire.spec.node_name, strings),
        })
    }
}
