//! VolumeGroupSnapshots, their contents and classes on the wire.

use serde::Deserialize;
use serde_json::value::RawValue;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, interned, list, nullable, own};
use sidecar::snapshot::{
    DEFAULT_GROUP_CLASS, GROUP_BEING_CREATED, GROUP_BEING_DELETED, GROUP_DELETION_SECRET_NAME,
    GROUP_DELETION_SECRET_NAMESPACE, content, group,
};

use super::class::{ClassWire, Words, read as read_class};
use super::{failure, some};
use crate::model::{
    ContentSource, Group, GroupClass, GroupContent, GroupContentStatus, GroupSource, GroupStatus,
    Member, SnapshotRef, Text,
};

/// A VolumeGroupSnapshot on the wire.
type GroupWire<'a> = lean::Parts<'a, SpecWire<'a>, Option<StatusWire<'a>>>;

/// The fields that decisions need of `spec`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SpecWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    source: SourceWire<'a>,
    #[serde(borrow)]
    volume_group_snapshot_class_name: Option<lean::Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SourceWire<'a> {
    #[serde(borrow)]
    selector: Option<&'a RawValue>,
    #[serde(borrow)]
    volume_group_snapshot_content_name: Option<lean::Text<'a>>,
}

/// The fields that decisions need of `status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatusWire<'a> {
    #[serde(borrow)]
    bound_volume_group_snapshot_content_name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    creation_time: Option<lean::Text<'a>>,
    ready_to_use: Option<bool>,
    #[serde(borrow)]
    error: Option<content::Failure<'a>>,
}

impl Record for Group {
    type Wire<'a> = GroupWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let GroupWire {
            metadata,
            spec,
            status,
        } = wire;
        let selector = spec.source.selector.map(|json| Text::from(json.get()));
        let content = some(&spec.source.volume_group_snapshot_content_name);
        let class = some(&spec.volume_group_snapshot_class_name);
        Some(Self {
            namespace: interned(&metadata.namespace, strings),
            name: own(&metadata.name),
            uid: own(&metadata.uid),
            version: own(&metadata.resource_version),
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers: list(&metadata.finalizers, strings),
            source: match (selector, content) {
                (Some(selector), None) => GroupSource::Claims(selector),
                (None, Some(content)) => GroupSource::Content(content),
                (Some(_), Some(_)) | (None, None) => GroupSource::Unclear,
            },
            class: class.map(|class| strings.intern(&class)),
            status: status.map(|status| {
                Box::new(GroupStatus {
                    bound: some(&status.bound_volume_group_snapshot_content_name),
                    creation_time: some(&status.creation_time),
                    ready: status.ready_to_use,
                    error: status.error.map(failure),
                })
            }),
        })
    }
}

impl Record for GroupContent {
    type Wire<'a> = content::Content<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let content::Content {
            metadata,
            spec,
            status,
        } = wire;
        let annotation = |name| {
            metadata
                .annotations
                .get(name)
                .map(|text| Text::from(&**text))
        };
        let name = annotation(GROUP_DELETION_SECRET_NAME);
        let source = (
            &spec.source.volume_handles,
            &spec.source.group_snapshot_handles,
        );
        let class = some(&spec.volume_group_snapshot_class_name);
        Some(Self {
            name: own(&metadata.name),
            uid: own(&metadata.uid),
            version: own(&metadata.resource_version),
            created: { metadata.creation_timestamp.as_deref() }.and_then(|time| time.parse().ok()),
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers: list(&metadata.finalizers, strings),
            being_created: metadata.annotations.get(GROUP_BEING_CREATED).is_some(),
            being_deleted: metadata.annotations.get(GROUP_BEING_DELETED).is_some(),
            group: { spec.volume_group_snapshot_ref.as_ref() }
                .map(|group| SnapshotRef::new(group, strings))
                .unwrap_or_default(),
            source: match source {
                (Some(_), None) => ContentSource::Volume,
                (None, Some(_)) => ContentSource::Snapshot,
                (Some(_), Some(_)) | (None, None) => ContentSource::Unclear,
            },
            class: class.map(|class| strings.intern(&class)),
            driver: interned(&spec.driver, strings),
            policy: spec.policy(),
            secret: name.zip(annotation(GROUP_DELETION_SECRET_NAMESPACE)),
            status: status.map(|status| Box::new(read(status, strings))),
        })
    }
}

fn read(wire: content::Status<'_>, strings: &Interner) -> GroupContentStatus {
    let members = wire.volume_snapshot_info_list.into_iter();
    GroupContentStatus {
        handle: some(&wire.volume_group_snapshot_handle).map(|handle| strings.intern(&handle)),
        creation_time: match wire.creation_time {
            Some(content::Time::Text(time)) => some(&Some(time)),
            Some(content::Time::Nanos(_)) | None => None,
        },
        ready: wire.ready_to_use,
        error: wire.error.map(failure),
        members: members
            .map(|member| Member {
                volume: own(&member.volume_handle),
                snapshot: own(&member.snapshot_handle),
                creation_time: member.creation_time,
                ready: member.ready_to_use,
                restore_size: member.restore_size,
            })
            .collect(),
    }
}

impl Record for GroupClass {
    type Wire<'a> = ClassWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let words = Words {
            default: DEFAULT_GROUP_CLASS,
            secret_name: group::SECRET_NAME_PARAMETER,
            secret_namespace: group::SECRET_NAMESPACE_PARAMETER,
        };
        Some(Self(read_class(&wire, &words, strings)))
    }
}
