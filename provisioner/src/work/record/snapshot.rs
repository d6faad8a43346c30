//! VolumeSnapshots and VolumeSnapshotContents on the wire.

use serde::Deserialize;
use serde::de::IgnoredAny;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, interned, list, nullable, own, pairs, shared};
use sidecar::kube::objects::{Reference, quantity};

use crate::model::{Content, Snapshot, SnapshotRef, VolumeMode};

/// A VolumeSnapshot on the wire.
pub type SnapshotWire<'a> = lean::Parts<'a, IgnoredAny, SnapshotStatusWire<'a>>;

/// The fields of `status` that the provisioner reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SnapshotStatusWire<'a> {
    #[serde(borrow)]
    bound_volume_snapshot_content_name: Option<lean::Text<'a>>,
    ready_to_use: Option<bool>,
    #[serde(borrow)]
    restore_size: Option<lean::Text<'a>>,
}

/// A VolumeSnapshotContent on the wire.
pub type ContentWire<'a> = lean::Parts<'a, ContentSpecWire<'a>, ContentStatusWire<'a>>;

/// The fields of `spec` that the provisioner reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContentSpecWire<'a> {
    #[serde(borrow)]
    driver: Option<lean::Text<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    volume_snapshot_ref: Reference<'a>,
    #[serde(borrow)]
    source_volume_mode: Option<lean::Text<'a>>,
}

/// The fields of `status` that the provisioner reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContentStatusWire<'a> {
    #[serde(borrow)]
    snapshot_handle: Option<lean::Text<'a>>,
}

impl Record for Snapshot {
    type Wire<'a> = SnapshotWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let SnapshotWire {
            metadata, status, ..
        } = wire;
        Some(Self {
            namespace: interned(&metadata.namespace, strings),
            name: own(&metadata.name),
            uid: own(&metadata.uid),
            version: metadata.version(),
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers: list(&metadata.finalizers, strings),
            content: shared(&status.bound_volume_snapshot_content_name, strings),
            ready: status.ready_to_use.unwrap_or_default(),
            restore_size: quantity(status.restore_size.as_ref()),
        })
    }
}

impl Record for Content {
    type Wire<'a> = ContentWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let ContentWire {
            metadata,
            spec,
            status,
        } = wire;
        let snapshot = spec.volume_snapshot_ref;
        Some(Self {
            name: own(&metadata.name),
            annotations: pairs(&metadata.annotations, strings),
            driver: interned(&spec.driver, strings),
            snapshot: SnapshotRef {
                namespace: interned(&snapshot.namespace, strings),
                name: own(&snapshot.name),
                uid: own(&snapshot.uid),
            },
            source_mode: spec.source_volume_mode.as_deref().map(VolumeMode::parse),
            handle: shared(&status.snapshot_handle, strings),
        })
    }
}
