//! Snapshots and groups.

use csi_proto::csi;
use serde::{Deserialize, Serialize};

use super::topology::{self, Segments};
use super::volume::{Backing, Kind, Phase};

/// A snapshot: a full copy of its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Snapshot handle.
    pub id: String,
    /// Order of creation, the key of list pages.
    pub sequence: u64,
    /// Name of the CreateSnapshot call.
    pub name: String,
    /// Volume handle of the source.
    pub source: String,
    /// Least size of a restored volume in bytes.
    pub size: i64,
    /// File system or block.
    pub kind: Kind,
    /// Form of the copy.
    pub backing: Backing,
    /// File system in the image.
    pub fs_type: String,
    /// Seconds since the epoch.
    pub created_seconds: i64,
    /// Group handle; empty for a single snapshot.
    pub group: String,
    /// Topologies in which it can be restored; empty for everywhere.
    pub topology: Vec<Segments>,
    /// Progress of an operation in several steps.
    pub phase: Phase,
}

impl Snapshot {
    /// The message for responses.
    pub fn message(&self, ready: bool) -> csi::Snapshot {
        csi::Snapshot {
            size_bytes: self.size,
            snapshot_id: self.id.clone(),
            source_volume_id: self.source.clone(),
            creation_time: Some(prost_types::Timestamp {
                seconds: self.created_seconds,
                nanos: 0,
            }),
            ready_to_use: ready && self.phase == Phase::Ready,
            group_snapshot_id: self.group.clone(),
            accessible_topology: self.topology.iter().map(topology::message).collect(),
        }
    }
}

/// Several snapshots of one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Group handle.
    pub id: String,
    /// Name of the call.
    pub name: String,
    /// Volume handles, sorted.
    pub sources: Vec<String>,
    /// Snapshot handles.
    pub snapshots: Vec<String>,
    /// Seconds since the epoch.
    pub created_seconds: i64,
}
