//! VolumeSnapshots on the wire.

use serde::Deserialize;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, list, nullable, own};

use super::{FailureWire, interned, some};
use crate::model::{Snapshot, SnapshotStatus, Source, Text};

/// A VolumeSnapshot on the wire.
type SnapshotWire<'a> = lean::Parts<'a, SpecWire<'a>, Option<StatusWire<'a>>>;

/// What is read of `spec`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SpecWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    source: SourceWire<'a>,
    #[serde(borrow)]
    volume_snapshot_class_name: Option<lean::Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SourceWire<'a> {
    #[serde(borrow)]
    persistent_volume_claim_name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    volume_snapshot_content_name: Option<lean::Text<'a>>,
}

/// What is read of `status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusWire<'a> {
    #[serde(borrow)]
    bound_volume_snapshot_content_name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    creation_time: Option<lean::Text<'a>>,
    ready_to_use: Option<bool>,
    #[serde(borrow)]
    restore_size: Option<lean::Text<'a>>,
    #[serde(borrow)]
    error: Option<FailureWire<'a>>,
    #[serde(borrow)]
    volume_group_snapshot_name: Option<lean::Text<'a>>,
}

impl Record for Snapshot {
    type Wire<'a> = SnapshotWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let SnapshotWire {
            metadata,
            spec,
            status,
        } = wire;
        let source = spec.source;
        let claim = some(&source.persistent_volume_claim_name);
        let content = some(&source.volume_snapshot_content_name);
        Some(Self {
            namespace: interned(&metadata.namespace, strings),
            name: own(&metadata.name),
            uid: own(&metadata.uid),
            version: own(&metadata.resource_version),
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers: list(&metadata.finalizers, strings),
            source: match (claim, content) {
                (Some(claim), None) => Source::Claim(claim),
                (None, Some(content)) => Source::Content(content),
                (Some(_), Some(_)) | (None, None) => Source::Unclear,
            },
            class: { some(&spec.volume_snapshot_class_name) }.map(|class| strings.intern(&class)),
            status: status.map(|status| Box::new(read(status, strings))),
        })
    }
}

fn read(wire: StatusWire<'_>, strings: &Interner) -> SnapshotStatus {
    SnapshotStatus {
        bound: wire
            .bound_volume_snapshot_content_name
            .as_deref()
            .map(Text::from),
        creation_time: wire.creation_time.as_deref().map(Text::from),
        ready: wire.ready_to_use,
        restore_size: wire
            .restore_size
            .as_deref()
            .map(|size| strings.intern(size)),
        error: wire.error.map(FailureWire::read),
        group: some(&wire.volume_group_snapshot_name),
    }
}
