//! VolumeSnapshots on the wire.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::value::RawValue;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{self, Meta, Object, interned, list, nullable, own, seconds};
use sidecar::lifecycle::{Id, Lifecycle, Look, Step};
use sidecar::snapshot::{
    GROUP_SNAPSHOT, SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND, SNAPSHOT_IN_GROUP, content,
};

use super::{failure, some};
use crate::model::{Owners, Snapshot, SnapshotStatus, Source, Text};
use crate::plan::lifecycle::{SnapshotSeen, of_snapshot};

/// A VolumeSnapshot on the wire, and the JSON text of its owner references.
#[derive(Debug)]
pub struct SnapshotWire<'a> {
    owners: Option<&'a RawValue>,
    parts: lean::Parts<'a, SpecWire<'a>, Option<StatusWire<'a>>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for SnapshotWire<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?;
        let parts = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
        let owned: OwnedWire<'_> = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
        Ok(Self {
            owners: owned.metadata.owner_references,
            parts,
        })
    }
}

impl Object for SnapshotWire<'_> {
    fn meta(&self) -> &Meta<'_> {
        &self.parts.metadata
    }
}

/// The owner references; VolumeSnapshots are the only kind whose owners matter here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OwnedWire<'a> {
    #[serde(borrow, deserialize_with = "nullable")]
    metadata: OwnedMetaWire<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OwnedMetaWire<'a> {
    #[serde(borrow)]
    owner_references: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OwnerWire<'a> {
    #[serde(borrow)]
    api_version: Option<lean::Text<'a>>,
    #[serde(borrow)]
    kind: Option<lean::Text<'a>>,
    #[serde(borrow)]
    name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    uid: Option<lean::Text<'a>>,
}

/// The fields that decisions need of `spec`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecWire<'a> {
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

/// The fields that decisions need of `status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusWire<'a> {
    #[serde(borrow)]
    bound_volume_snapshot_content_name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    creation_time: Option<lean::Text<'a>>,
    ready_to_use: Option<bool>,
    #[serde(borrow)]
    restore_size: Option<lean::Text<'a>>,
    #[serde(borrow)]
    error: Option<content::Failure<'a>>,
    #[serde(borrow)]
    volume_group_snapshot_name: Option<lean::Text<'a>>,
}

impl Record for Snapshot {
    type Wire<'a> = SnapshotWire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let lean::Parts {
            metadata,
            spec,
            status,
        } = wire.parts;
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
            owners: wire.owners.and_then(owners),
            source: match (claim, content) {
                (Some(claim), None) => Source::Claim(claim),
                (None, Some(content)) => Source::Content(content),
                (Some(_), Some(_)) | (None, None) => Source::Unclear,
            },
            class: { some(&spec.volume_snapshot_class_name) }.map(|class| strings.intern(&class)),
            status: status.map(|status| Box::new(read(status, strings))),
        })
    }

    fn steps<'w>(wire: &'w Self::Wire<'_>, look: Look, _: &Lifecycle) -> Vec<Step<'w>> {
        of_snapshot(&seen(&wire.parts), look)
    }

    fn lifecycle_id(&self) -> Option<Id> {
        Some(Id::of(&self.uid))
    }
}

/// What is looked at of a VolumeSnapshot, however it is held.
fn seen<'w>(parts: &'w lean::Parts<'_, SpecWire<'_>, Option<StatusWire<'_>>>) -> SnapshotSeen<'w> {
    let (metadata, source) = (&parts.metadata, &parts.spec.source);
    let status = parts.status.as_ref();
    let text = |text: &'w Option<lean::Text<'_>>| text.as_deref().filter(|text| !text.is_empty());
    let ours = [SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND, SNAPSHOT_IN_GROUP];
    let bound = status.and_then(|status| text(&status.bound_volume_snapshot_content_name));
    let given = text(&source.volume_snapshot_content_name);
    SnapshotSeen {
        uid: metadata.uid.as_deref().unwrap_or_default(),
        created: seconds(metadata.creation_timestamp.as_deref()),
        deleted: seconds(metadata.deletion_timestamp.as_deref()),
        held: { metadata.finalizers.iter() }.any(|held| ours.contains(&&**held)),
        dynamic: given.is_none(),
        taken: status.and_then(|status| status.creation_time.as_deref()?.parse().ok()),
        ready: status.is_some_and(|status| status.ready_to_use.unwrap_or_default()),
        content: bound.or(given).unwrap_or_default(),
        class: text(&parts.spec.volume_snapshot_class_name).unwrap_or_default(),
    }
}

/// The owner references; `None` if the list is empty.
fn owners(json: &RawValue) -> Option<Box<Owners>> {
    let all: Vec<OwnerWire<'_>> = serde_json::from_str(json.get()).ok()?;
    let group = all.iter().find(|owner| {
        let version = owner.api_version.as_deref().unwrap_or_default();
        let group = version.split_once('/').map(|(group, _)| group);
        group == Some(GROUP_SNAPSHOT.group) && owner.kind.as_deref() == Some(GROUP_SNAPSHOT.kind)
    });
    (!all.is_empty()).then(|| {
        Box::new(Owners {
            json: json.get().into(),
            group: group.map(|owner| (own(&owner.uid), own(&owner.name))),
        })
    })
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
        error: wire.error.map(failure),
        group: some(&wire.volume_group_snapshot_name),
    }
}
