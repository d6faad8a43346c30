//! API objects, as far as this program reads them.
//!
//! Caches, decisions and tests share these records and nothing else; the caches hold a cluster's
//! 50,000 claims and as many PersistentVolumes in this form. No client, no runtime, no clock in
//! here.
//!
//! | file | object |
//! |---|---|
//! | `snapshot` | VolumeSnapshot |
//! | `content` | VolumeSnapshotContent |
//! | `class` | VolumeSnapshotClass |
//! | `group` | VolumeGroupSnapshot, its content and its class |
//! | `head` | the fields that single snapshots and group snapshots have in common |
//! | `claim` | PersistentVolumeClaim |
//! | `volume` | PersistentVolume |
//! | `node` | Node |

mod claim;
mod class;
mod content;
mod group;
mod head;
mod node;
mod snapshot;
mod volume;

pub use claim::{Claim, Phase};
pub use class::Class;
pub use content::{Content, ContentSource, ContentStatus};
pub use group::{
    Group, GroupClass, GroupContent, GroupContentStatus, GroupSource, GroupStatus, Member,
};
pub use head::{ContentHead, Head, Kind};
pub use node::Node;
pub use sidecar::snapshot::{Policy, SnapshotRef};
pub use sidecar::text::{List, Pairs, Text};
pub use snapshot::{Failure, MISBOUND, MISSING, Owners, Snapshot, SnapshotStatus, Source};
pub use volume::{ClaimRef, Csi, Uid, Volume};

/// The key of a namespaced object in caches and queues.
#[must_use]
pub fn key(namespace: &str, name: &str) -> Text {
    Text::from(format!("{namespace}/{name}"))
}
