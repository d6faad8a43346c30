//! VolumeSnapshotContents on the wire.

use serde::Deserialize;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, list, nullable, own, shared};
use sidecar::snapshot::{
    BEING_CREATED, BEING_DELETED, DELETION_SECRET_NAME, DELETION_SECRET_NAMESPACE, GROUP_HANDLE,
    YES,
};

use super::interned;
use crate::model::{Content, Policy, SecretRef, SnapshotRef, Source, Status, Text};

/// A VolumeSnapshotContent on the wire.
pub(super) type ContentWire<'a> = lean::Parts<'a, SpecWire<'a>, Option<StatusWire<'a>>>;

/// What is read of `spec`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SpecWire<'a> {
    #[serde(borrow)]
    driver: Option<lean::Text<'a>>,
    #[serde(borrow)]
    deletion_policy: Option<lean::Text<'a>>,
    #[serde(borrow)]
    volume_snapshot_class_name: Option<lean::Text<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    volume_snapshot_ref: ReferenceWire<'a>,
    #[serde(borrow, deserialize_with = "nullable")]
    source: SourceWire<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ReferenceWire<'a> {
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
    #[serde(borrow)]
    snapshot_handle: Option<lean::Text<'a>>,
    creation_time: Option<i64>,
    ready_to_use: Option<bool>,
    restore_size: Option<i64>,
    #[serde(borrow)]
    volume_group_snapshot_handle: Option<lean::Text<'a>>,
    #[serde(borrow)]
    error: Option<ErrorWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorWire<'a> {
    #[serde(borrow)]
    message: Option<lean::Text<'a>>,
}

impl Record for Content {
    type Wire<'a> = ContentWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let ContentWire {
            metadata,
            spec,
            status,
        } = wire;
        let annotations = &metadata.annotations;
        let mark = annotations.get(BEING_CREATED);
        let name = annotations.get(DELETION_SECRET_NAME);
        let namespace = annotations.get(DELETION_SECRET_NAMESPACE);
        let snapshot = &spec.volume_snapshot_ref;
        Some(Self {
            uid: own(&metadata.uid),
            version: metadata.version(),
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers: list(&metadata.finalizers, strings),
            being_created: mark.is_some(),
            marked_again: mark.is_some_and(|value| **value != *YES),
            being_deleted: annotations.get(BEING_DELETED).is_some(),
            member: annotations.get(GROUP_HANDLE).is_some(),
            secret: name.zip(namespace).map(|(name, namespace)| {
                Box::new(SecretRef {
                    namespace: strings.intern(namespace),
                    name: strings.intern(name),
                })
            }),
            snapshot: SnapshotRef {
                namespace: interned(&snapshot.namespace, strings),
                name: own(&snapshot.name),
                uid: own(&snapshot.uid),
            },
            source: source(&spec.source),
            driver: interned(&spec.driver, strings),
            class: shared(&spec.volume_snapshot_class_name, strings),
            policy: match spec.deletion_policy.as_deref() {
                Some("Delete") => Policy::Delete,
                Some(_) | None => Policy::Retain,
            },
            status: status.map(status_of),
        })
    }
}

fn source(wire: &SourceWire<'_>) -> Option<Source> {
    match (&wire.volume_handle, &wire.snapshot_handle) {
        (Some(volume), _) => Some(Source::Volume(Text::from(&**volume))),
        (None, Some(snapshot)) => Some(Source::Snapshot(Text::from(&**snapshot))),
        (None, None) => None,
    }
}

fn status_of(wire: StatusWire<'_>) -> Status {
    let text = |text: Option<lean::Text<'_>>| text.map(|text| Text::from(&*text));
    Status {
        handle: text(wire.snapshot_handle).filter(|handle| !handle.is_empty()),
        created: wire.creation_time,
        ready: wire.ready_to_use,
        size: wire.restore_size,
        group: text(wire.volume_group_snapshot_handle).filter(|group| !group.is_empty()),
        error: { wire.error }.map(|error| text(error.message).unwrap_or_default()),
    }
}
