//! VolumeSnapshotContents on the wire.

use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{interned, list, own};
use sidecar::snapshot::{BEING_CREATED, BEING_DELETED, GROUP_HANDLE, content};

use super::{failure, some};
use crate::model::{Content, ContentSource, ContentStatus, SnapshotRef};

impl Record for Content {
    type Wire<'a> = content::Content<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let content::Content {
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
            snapshot: SnapshotRef::new(&spec.volume_snapshot_ref, strings),
            source: match source {
                (Some(_), None) => ContentSource::Volume,
                (None, Some(_)) => ContentSource::Snapshot,
                (Some(_), Some(_)) | (None, None) => ContentSource::Unclear,
            },
            class: { some(&spec.volume_snapshot_class_name) }.map(|class| strings.intern(&class)),
            driver: interned(&spec.driver, strings),
            policy: spec.policy(),
            status: status.map(|status| Box::new(read(status, strings))),
        })
    }
}

fn read(wire: content::Status<'_>, strings: &Interner) -> ContentStatus {
    let group = some(&wire.volume_group_snapshot_handle);
    ContentStatus {
        creation_time: { wire.creation_time }.and_then(|time| time.nanos()),
        restore_size: wire.restore_size,
        ready: wire.ready_to_use,
        error: wire.error.map(failure),
        is_taken: some(&wire.snapshot_handle).is_some(),
        group: group.map(|handle| strings.intern(&handle)),
    }
}
