//! VolumeSnapshotContents on the wire.

use serde::Deserialize;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, list, nullable, own};
use sidecar::snapshot::{BEING_CREATED, BEING_DELETED, GROUP_HANDLE};

use super::{FailureWire, interned, some};
use crate::model::{Content, ContentSource, ContentStatus, Policy, SnapshotRef};

/// A VolumeSnapshotContent on the wire.
type ContentWire<'a> = lean::Parts<'a, SpecWire<'a>, Option<StatusWire<'a>>>;

/// What is read of `spec`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SpecWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    volume_snapshot_ref: RefWire<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    source: SourceWire<'a>,
    #[serde(borrow)]
    volume_snapshot_class_name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    driver: Option<lean::Text<'a>>,
    #[serde(borrow)]
    deletion_policy: Option<lean::Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RefWire<'a> {
    #[serde(borrow)]
    namespace: Option<lean::Text<'a>>,
    #[serde(borrow)]
    name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    uid: Option<lean::Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SourceWire<'a> {
    #[serde(borrow)]
    volume_handle: Option<lean::Text<'a>>,
    #[serde(borrow)]
    snapshot_handle: Option<lean::Text<'a>>,
}

/// What is read of `status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusWire<'a> {
    creation_time: Option<i64>,
    restore_size: Option<i64>,
    ready_to_use: Option<bool>,
    #[serde(borrow)]
    error: Option<FailureWire<'a>>,
    #[serde(borrow)]
    snapshot_handle: Option<lean::Text<'a>>,
    #[serde(borrow)]
    volume_group_snapshot_handle: Option<lean::Text<'a>>,
}

impl RefWire<'_> {
    pub(super) fn read(&self, strings: &Interner) -> SnapshotRef {
        SnapshotRef {
            namespace: interned(&self.namespace, strings),
            name: own(&self.name),
            uid: own(&self.uid),
        }
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
        let annotated = |name| metadata.annotations.get(name).is_some();
        let source = (
            some(&spec.source.volume_handle),
            some(&spec.source.snapshot_handle),
        );
        Some(Self {
            name: own(&metadata.name),
            uid: own(&metadata.uid),
            version: own(&metadata.resource_version),
            created: { metadata.creation_timestamp.as_deref() }.and_then(|time| time.parse().ok()),
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers: list(&metadata.finalizers, strings),
            being_created: annotated(BEING_CREATED),
            being_deleted: annotated(BEING_DELETED),
            group: { metadata.annotations.get(GROUP_HANDLE) }.map(|handle| strings.intern(handle)),
            snapshot: spec.volume_snapshot_ref.read(strings),
            source: match source {
                (Some(_), None) => ContentSource::Volume,
                (None, Some(_)) => ContentSource::Snapshot,
                (Some(_), Some(_)) | (None, None) => ContentSource::Unclear,
            },
            class: { some(&spec.volume_snapshot_class_name) }.map(|class| strings.intern(&class)),
            driver: interned(&spec.driver, strings),
            policy: Policy::new(spec.deletion_policy.as_deref().unwrap_or_default()),
            status: status.map(|status| Box::new(read(status, strings))),
        })
    }
}

fn read(wire: StatusWire<'_>, strings: &Interner) -> ContentStatus {
    let group = some(&wire.volume_group_snapshot_handle);
    ContentStatus {
        creation_time: wire.creation_time,
        restore_size: wire.restore_size,
        ready: wire.ready_to_use,
        error: wire.error.map(FailureWire::read),
        is_taken: some(&wire.snapshot_handle).is_some(),
        group: group.map(|handle| strings.intern(&handle)),
    }
}
