//! The cached form of VolumeSnapshots and their contents.
//!
//! A cluster has tens of thousands of them, nearly all alike but for names, UIDs and times. The cache
//! holds only these, and rebuilds the record for each reader. A record that would not come out the same
//! is held whole.

use std::sync::Arc;

use jiff::Timestamp;
use sidecar::kube::cache::Record;
use sidecar::kube::interner::Interner;
use sidecar::lifecycle::{Id, Lifecycle, Look, Step};
use sidecar::snapshot::content_name;
use uuid::Uuid;

use crate::model::{
    Content, ContentSource, ContentStatus, List, Policy, Snapshot, SnapshotRef, SnapshotStatus,
    Source, Text,
};

/// A record that can be packed.
pub trait Pack: Record + PartialEq {
    /// The packed form.
    type Packed: Send + Sync + 'static;

    /// The object's name, as the cache knows it.
    fn name(&self) -> Text;

    /// Packs the record if it is one of many alike.
    fn pack(&self, strings: &Interner) -> Option<Self::Packed>;

    /// Rebuilds the record of this name.
    fn unpack(packed: &Self::Packed, name: &str) -> Self;
}

/// A record as a cache holds it.
#[derive(Debug)]
pub enum MaybePacked<R: Pack> {
    /// The record itself.
    Whole(Arc<R>),
    /// The fields in which the record differs from its like.
    Packed(R::Packed),
}

impl<R: Pack> MaybePacked<R> {
    /// The record of this name.
    pub fn record(&self, name: &str) -> Arc<R> {
        match self {
            Self::Whole(record) => Arc::clone(record),
            Self::Packed(packed) => Arc::new(R::unpack(packed, name)),
        }
    }
}

impl<R: Pack> Record for MaybePacked<R> {
    type Wire<'a> = R::Wire<'a>;

    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self> {
        let record = R::from_wire(wire, strings)?;
        let packed = record.pack(strings);
        let packed = packed.filter(|packed| R::unpack(packed, &record.name()) == record);
        Some(match packed {
            Some(packed) => Self::Packed(packed),
            None => Self::Whole(Arc::new(record)),
        })
    }

    fn steps<'w>(wire: &'w Self::Wire<'_>, look: Look, measured: &Lifecycle) -> Vec<Step<'w>> {
        R::steps(wire, look, measured)
    }

    fn lifecycle_id(&self) -> Option<Id> {
        match self {
            Self::Whole(record) => record.lifecycle_id(),
            // It is ready, and stays.
            Self::Packed(_) => None,
        }
    }
}

/// The packed form of a VolumeSnapshot that is ready and bound to a content of its own.
#[derive(Debug)]
pub struct PackedSnapshot {
    common: Arc<SnapshotsHave>,
    uid: Uuid,
    version: u64,
    /// Seconds since 1970.
    taken: i64,
    claim: Box<str>,
}

/// The fields that many VolumeSnapshots share.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SnapshotsHave {
    namespace: Text,
    finalizers: List,
    class: Option<Text>,
    size: Option<Text>,
}

impl Pack for Snapshot {
    type Packed = PackedSnapshot;

    fn name(&self) -> Text {
        self.key()
    }

    fn pack(&self, strings: &Interner) -> Option<PackedSnapshot> {
        let Source::Claim(claim) = &self.source else {
            return None;
        };
        let status = self.status.as_deref()?;
        let taken: Timestamp = status.creation_time.as_deref()?.parse().ok()?;
        Some(PackedSnapshot {
            common: strings.share(SnapshotsHave {
                namespace: self.namespace.clone(),
                finalizers: self.finalizers.clone(),
                class: self.class.clone(),
                size: status.restore_size.clone(),
            }),
            uid: Uuid::parse_str(&self.uid).ok()?,
            version: self.version.parse().ok()?,
            taken: taken.as_second(),
            claim: claim[..].into(),
        })
    }

    fn unpack(packed: &PackedSnapshot, name: &str) -> Self {
        let common = &*packed.common;
        let name = name.split_once('/').map_or(name, |(_, name)| name);
        let uid = packed.uid.to_string();
        let taken = Timestamp::from_second(packed.taken).unwrap_or_default();
        Self {
            namespace: common.namespace.clone(),
            name: name.into(),
            version: packed.version.to_string().into(),
            deleting: false,
            finalizers: common.finalizers.clone(),
            owners: None,
            source: Source::Claim((*packed.claim).into()),
            class: common.class.clone(),
            status: Some(Box::new(SnapshotStatus {
                bound: Some(content_name(&uid).into()),
                creation_time: Some(taken.to_string().into()),
                ready: Some(true),
                restore_size: common.size.clone(),
                error: None,
                group: None,
            })),
            uid: uid.into(),
        }
    }
}

/// The packed form of a content that is bound and ready.
#[derive(Debug)]
pub struct PackedContent {
    common: Arc<ContentsHave>,
    uid: Uuid,
    version: u64,
    /// Seconds since 1970.
    created: i64,
    /// Nanoseconds since 1970.
    taken: i64,
    snapshot: Box<str>,
    snapshot_uid: Uuid,
}

/// The fields that many contents share.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ContentsHave {
    finalizers: List,
    namespace: Text,
    source: ContentSource,
    class: Option<Text>,
    driver: Text,
    policy: Policy,
    size: Option<i64>,
}

impl Pack for Content {
    type Packed = PackedContent;

    fn name(&self) -> Text {
        self.name.clone()
    }

    fn pack(&self, strings: &Interner) -> Option<PackedContent> {
        let status = self.status.as_deref()?;
        Some(PackedContent {
            common: strings.share(ContentsHave {
                finalizers: self.finalizers.clone(),
                namespace: self.snapshot.namespace.clone(),
                source: self.source,
                class: self.class.clone(),
                driver: self.driver.clone(),
                policy: self.policy,
                size: status.restore_size,
            }),
            uid: Uuid::parse_str(&self.uid).ok()?,
            version: self.version.parse().ok()?,
            created: self.created?.as_second(),
            taken: status.creation_time?,
            snapshot: self.snapshot.name[..].into(),
            snapshot_uid: Uuid::parse_str(&self.snapshot.uid).ok()?,
        })
    }

    fn unpack(packed: &PackedContent, name: &str) -> Self {
        let common = &*packed.common;
        Self {
            name: name.into(),
            uid: packed.uid.to_string().into(),
            version: packed.version.to_string().into(),
            created: Timestamp::from_second(packed.created).ok(),
            deleting: false,
            finalizers: common.finalizers.clone(),
            being_created: false,
            being_deleted: false,
            group: None,
            snapshot: SnapshotRef {
                namespace: common.namespace.clone(),
                name: (*packed.snapshot).into(),
                uid: packed.snapshot_uid.to_string().into(),
            },
            source: common.source,
            class: common.class.clone(),
            driver: common.driver.clone(),
            policy: common.policy,
            status: Some(Box::new(ContentStatus {
                creation_time: Some(packed.taken),
                restore_size: common.size,
                ready: Some(true),
                error: None,
                is_taken: true,
                group: None,
            })),
        }
    }
}

#[cfg(test)]
mod tests;
