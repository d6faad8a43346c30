//! A volume: its parameters, its topology, and its users.

use std::collections::{BTreeMap, BTreeSet};

use csi_proto::csi;
use csi_proto::csi::volume_capability::AccessType;
use csi_proto::csi::volume_content_source::{self, SnapshotSource, VolumeSource};
use serde::{Deserialize, Serialize};

use super::topology::{self, Segments};

/// A volume's kind for its consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A file system.
    Mount,
    /// A raw block device.
    Block,
}

/// The form of a volume's data below the state folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backing {
    /// A bind-mounted folder.
    Directory,
    /// A file behind a loop device.
    Image,
}

/// Progress of an operation in several steps; anything but `Ready` after a restart means that the
/// driver died in between and the caller has to repeat its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The ID is assigned, the data does not exist yet.
    Creating,
    /// Usable.
    Ready,
    /// The data may be deleted already.
    Deleting,
}

/// The source of the initial content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A snapshot id.
    Snapshot(String),
    /// A volume id.
    Volume(String),
}

impl Source {
    /// The source in a request, if there is one.
    pub fn of(source: Option<&csi::VolumeContentSource>) -> Option<Self> {
        match source?.r#type.as_ref()? {
            volume_content_source::Type::Snapshot(s) => Some(Self::Snapshot(s.snapshot_id.clone())),
            volume_content_source::Type::Volume(v) => Some(Self::Volume(v.volume_id.clone())),
        }
    }

    fn message(&self) -> csi::VolumeContentSource {
        let kind = match self {
            Self::Snapshot(id) => volume_content_source::Type::Snapshot(SnapshotSource {
                snapshot_id: id.clone(),
            }),
            Self::Volume(id) => volume_content_source::Type::Volume(VolumeSource {
                volume_id: id.clone(),
            }),
        };
        csi::VolumeContentSource { r#type: Some(kind) }
    }
}

/// A controller publish (attachment) to one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Published read-only.
    pub readonly: bool,
    /// `VolumeCapability.AccessMode.Mode` of the publish.
    pub access_mode: i32,
}

/// One target path on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// Published read-only.
    pub readonly: bool,
    /// Staging path that it was published from, empty without staging.
    pub staging: String,
    /// `VolumeCapability.AccessMode.Mode` of the publish.
    pub access_mode: i32,
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Volume handle.
    pub id: String,
    /// Order of creation, the key of list pages.
    pub sequence: u64,
    /// Name of the CreateVolume call, empty for inline volumes.
    pub name: String,
    /// Bytes.
    pub capacity: i64,
    /// Size of the file system or loop device in bytes; below `capacity` between controller and
    /// node expansion.
    pub grown_to: i64,
    /// File system or block.
    pub kind: Kind,
    /// Folder or image.
    pub backing: Backing,
    /// File system in the image.
    pub fs_type: String,
    /// An inline volume, which lives as long as its pod.
    pub ephemeral: bool,
    /// Progress of an operation in several steps.
    pub phase: Phase,
    /// Parameters of the CreateVolume call.
    pub parameters: BTreeMap<String, String>,
    /// Current mutable parameters.
    pub mutable_parameters: BTreeMap<String, String>,
    /// Origin of the content.
    pub source: Option<Source>,
    /// Topologies that it is accessible from; empty for everywhere.
    pub topology: Vec<Segments>,
    /// Attachments by node ID.
    pub attachments: BTreeMap<String, Attachment>,
    /// Staging paths by node id.
    pub staged: BTreeMap<String, BTreeSet<String>>,
    /// Target paths by node id.
    pub published: BTreeMap<String, BTreeMap<String, Publication>>,
}

impl Volume {
    /// The message for responses.
    pub fn message(&self) -> csi::Volume {
        csi::Volume {
            capacity_bytes: self.capacity,
            volume_id: self.id.clone(),
            volume_context: self.parameters.clone(),
            content_source: self.source.as_ref().map(Source::message),
            accessible_topology: self.topology.iter().map(topology::message).collect(),
        }
    }

    /// Whether a node with these segments can access it.
    pub fn reachable_from(&self, node: &Segments) -> bool {
        self.topology.is_empty() || self.topology.iter().any(|t| topology::reaches(node, t))
    }

    /// Why it must not be deleted.
    pub fn user(&self) -> Option<String> {
        if let Some(node) = self
            .published
            .iter()
            .find(|(_, t)| !t.is_empty())
            .map(|(n, _)| n)
        {
            return Some(format!("published on node {node}"));
        }
        if let Some(node) = self
            .staged
            .iter()
            .find(|(_, t)| !t.is_empty())
            .map(|(n, _)| n)
        {
            return Some(format!("staged on node {node}"));
        }
        self.attachments
            .keys()
            .next()
            .map(|node| format!("attached to node {node}"))
    }

    /// Whether it is staged or published on any node.
    pub fn in_use_on_nodes(&self) -> bool {
        self.staged.values().any(|paths| !paths.is_empty())
            || self.published.values().any(|targets| !targets.is_empty())
    }
}

/// The kind in a capability.
pub fn kind(capability: &csi::VolumeCapability) -> Option<Kind> {
    match capability.access_type.as_ref()? {
        AccessType::Block(_) => Some(Kind::Block),
        AccessType::Mount(_) => Some(Kind::Mount),
    }
}

/// Access mode number; 0 (UNKNOWN) without one.
pub fn access_mode(capability: &csi::VolumeCapability) -> i32 {
    capability.access_mode.as_ref().map_or(0, |mode| mode.mode)
}
