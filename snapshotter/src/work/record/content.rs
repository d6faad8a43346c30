//! VolumeSnapshotContents and VolumeGroupSnapshotContents on the wire.
//!
//! One reader for both: their fields have different names, and which kind an object is of follows from
//! the reference that it must have.

use jiff::Timestamp;
use serde::Deserialize;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, list, nullable, own, shared};
use sidecar::snapshot::{ACCESSIBLE_TOPOLOGY, ALLOWED_TOPOLOGIES, GROUP_HANDLE, YES};

use super::interned;
use crate::model::{
    Content, GroupHandles, Kind, Member, Policy, SecretRef, SnapshotRef, Source, Status, Text,
    Topology,
};

/// A content on the wire.
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
    #[serde(borrow)]
    volume_group_snapshot_class_name: Option<lean::Text<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    volume_snapshot_ref: ReferenceWire<'a>,
    #[serde(borrow)]
    volume_group_snapshot_ref: Option<ReferenceWire<'a>>,
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
    #[serde(borrow, deserialize_with = "nullable")]
    volume_handles: Vec<lean::Text<'a>>,
    #[serde(borrow)]
    group_snapshot_handles: Option<HandlesWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct HandlesWire<'a> {
    #[serde(borrow)]
    volume_group_snapshot_handle: Option<lean::Text<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    volume_snapshot_handles: Vec<lean::Text<'a>>,
}

/// What is read of `status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusWire<'a> {
    #[serde(borrow)]
    snapshot_handle: Option<lean::Text<'a>>,
    #[serde(borrow)]
    creation_time: Option<TimeWire<'a>>,
    ready_to_use: Option<bool>,
    restore_size: Option<i64>,
    #[serde(borrow)]
    volume_group_snapshot_handle: Option<lean::Text<'a>>,
    #[serde(borrow, deserialize_with = "nullable")]
    volume_snapshot_info_list: Vec<MemberWire<'a>>,
    #[serde(borrow)]
    error: Option<ErrorWire<'a>>,
}

/// Nanoseconds since 1970 of a snapshot, RFC 3339 of a group.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum TimeWire<'a> {
    Nanos(i64),
    #[serde(borrow)]
    Text(lean::Text<'a>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MemberWire<'a> {
    #[serde(borrow)]
    volume_handle: Option<lean::Text<'a>>,
    #[serde(borrow)]
    snapshot_handle: Option<lean::Text<'a>>,
    creation_time: Option<i64>,
    ready_to_use: Option<bool>,
    restore_size: Option<i64>,
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
        let of_group = spec.volume_group_snapshot_ref.as_ref();
        let (kind, snapshot, class) = match of_group {
            None => (
                Kind::Single,
                &spec.volume_snapshot_ref,
                &spec.volume_snapshot_class_name,
            ),
            Some(group) => (Kind::Group, group, &spec.volume_group_snapshot_class_name),
        };
        let annotations = &metadata.annotations;
        let mark = annotations.get(kind.being_created());
        let [name, namespace] = kind.deletion_secret().map(|key| annotations.get(key));
        let [allowed, accessible] = [ALLOWED_TOPOLOGIES, ACCESSIBLE_TOPOLOGY].map(|key| {
            let text = annotations.get(key);
            text.map(|text| strings.intern(text))
        });
        let topology = Topology {
            allowed,
            accessible,
        };
        Some(Self {
            uid: own(&metadata.uid),
            version: metadata.version(),
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers: list(&metadata.finalizers, strings),
            being_created: mark.is_some(),
            marked_again: mark.is_some_and(|value| **value != *YES),
            being_deleted: annotations.get(kind.being_deleted()).is_some(),
            member: annotations.get(GROUP_HANDLE).is_some(),
            secret: name.zip(namespace).map(|(name, namespace)| {
                Box::new(SecretRef {
                    namespace: strings.intern(namespace),
                    name: strings.intern(name),
                })
            }),
            topology: (topology != Topology::default()).then(|| Box::new(topology)),
            snapshot: SnapshotRef {
                namespace: interned(&snapshot.namespace, strings),
                name: own(&snapshot.name),
                uid: own(&snapshot.uid),
            },
            source: match kind {
                Kind::Single => source(&spec.source),
                Kind::Group => group_source(&spec.source),
            },
            driver: interned(&spec.driver, strings),
            class: shared(class, strings),
            policy: match spec.deletion_policy.as_deref() {
                Some("Delete") => Policy::Delete,
                Some(_) | None => Policy::Retain,
            },
            status: status.map(|status| status_of(kind, status)),
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

fn group_source(wire: &SourceWire<'_>) -> Option<Source> {
    let texts = |texts: &[lean::Text<'_>]| texts.iter().map(|text| Text::from(&**text)).collect();
    if !wire.volume_handles.is_empty() {
        return Some(Source::Volumes(texts(&wire.volume_handles)));
    }
    let handles = wire.group_snapshot_handles.as_ref()?;
    let group = handles.volume_group_snapshot_handle.as_ref()?;
    Some(Source::Group(Box::new(GroupHandles {
        group: Text::from(&**group),
        snapshots: texts(&handles.volume_snapshot_handles),
    })))
}

fn text(text: Option<lean::Text<'_>>) -> Option<Text> {
    text.map(|text| Text::from(&*text))
}

fn status_of(kind: Kind, wire: StatusWire<'_>) -> Status {
    let there = |found: Option<lean::Text<'_>>| text(found).filter(|found| !found.is_empty());
    let group = there(wire.volume_group_snapshot_handle);
    let (handle, group) = match kind {
        Kind::Single => (there(wire.snapshot_handle), group),
        Kind::Group => (group, None),
    };
    let members = wire.volume_snapshot_info_list.into_iter();
    Status {
        handle,
        created: wire.creation_time.map(nanos),
        ready: wire.ready_to_use,
        size: wire.restore_size,
        group,
        members: members.map(member).collect(),
        error: { wire.error }.map(|error| text(error.message).unwrap_or_default()),
    }
}

fn member(wire: MemberWire<'_>) -> Member {
    Member {
        volume: text(wire.volume_handle).unwrap_or_default(),
        handle: text(wire.snapshot_handle).unwrap_or_default(),
        created: wire.creation_time,
        ready: wire.ready_to_use,
        size: wire.restore_size,
    }
}

fn nanos(wire: TimeWire<'_>) -> i64 {
    let text = match wire {
        TimeWire::Nanos(nanos) => return nanos,
        TimeWire::Text(text) => text,
    };
    let time = text.parse::<Timestamp>().ok();
    let nanos = time.and_then(|time| i64::try_from(time.as_nanosecond()).ok());
    nanos.unwrap_or_default()
}
