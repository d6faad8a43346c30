//! VolumeSnapshotContents and VolumeGroupSnapshotContents on the wire.
//!
//! The reference to the snapshot or group shows the kind.

use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, interned, list, own, shared};
use sidecar::snapshot::{ACCESSIBLE_TOPOLOGY, ALLOWED_TOPOLOGIES, GROUP_HANDLE, YES, content};

use crate::model::{
    Content, GroupHandles, Kind, Member, Members, SecretRef, SnapshotRef, Source, Status, Text,
    Topology,
};

impl Record for Content {
    type Wire<'a> = content::Content<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let content::Content {
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
            snapshot: SnapshotRef::new(snapshot, strings),
            source: match kind {
                Kind::Single => source(&spec.source),
                Kind::Group => group_source(&spec.source),
            },
            driver: interned(&spec.driver, strings),
            class: shared(class, strings),
            policy: spec.policy(),
            status: status.map(|status| status_of(kind, status)),
        })
    }
}

fn source(wire: &content::Source<'_>) -> Option<Source> {
    match (&wire.volume_handle, &wire.snapshot_handle) {
        (Some(volume), _) => Some(Source::Volume(Text::from(&**volume))),
        (None, Some(snapshot)) => Some(Source::Snapshot(Text::from(&**snapshot))),
        (None, None) => None,
    }
}

fn group_source(wire: &content::Source<'_>) -> Option<Source> {
    let texts = |texts: &[lean::Text<'_>]| texts.iter().map(|text| Text::from(&**text)).collect();
    let volumes = wire.volume_handles.as_deref().unwrap_or_default();
    if !volumes.is_empty() {
        return Some(Source::Volumes(texts(volumes)));
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

fn status_of(kind: Kind, wire: content::Status<'_>) -> Status {
    let there = |found: Option<lean::Text<'_>>| text(found).filter(|found| !found.is_empty());
    let group = there(wire.volume_group_snapshot_handle);
    let (handle, group) = match kind {
        Kind::Single => (there(wire.snapshot_handle), group),
        Kind::Group => (group, None),
    };
    let members = wire.volume_snapshot_info_list;
    Status {
        handle,
        created: { wire.creation_time }.map(|time| time.nanos().unwrap_or_default()),
        ready: wire.ready_to_use,
        size: wire.restore_size,
        group,
        members: if members.is_empty() {
            // All contents without members share one empty list.
            Members::default()
        } else {
            members.into_iter().map(member).collect()
        },
        error: { wire.error }.map(|error| text(error.message).unwrap_or_default()),
    }
}

fn member(wire: content::Member<'_>) -> Member {
    Member {
        volume: text(wire.volume_handle).unwrap_or_default(),
        handle: text(wire.snapshot_handle).unwrap_or_default(),
        created: wire.creation_time,
        ready: wire.ready_to_use,
        size: wire.restore_size,
    }
}
