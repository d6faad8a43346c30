//! The kinds of objects.

use sidecar::kube::reflect::Resource;
use sidecar::snapshot::{self, VERSION};

/// VolumeSnapshots.
pub const SNAPSHOTS: Resource = of(snapshot::SNAPSHOT);
/// VolumeSnapshotContents.
pub const CONTENTS: Resource = of(snapshot::CONTENT);
/// VolumeSnapshotClasses.
pub const CLASSES: Resource = of(snapshot::CLASS);
/// VolumeGroupSnapshots.
pub const GROUP_SNAPSHOTS: Resource = of(snapshot::GROUP_SNAPSHOT);
/// VolumeGroupSnapshotContents.
pub const GROUP_CONTENTS: Resource = of(snapshot::GROUP_CONTENT);
/// VolumeGroupSnapshotClasses.
pub const GROUP_CLASSES: Resource = of(snapshot::GROUP_CLASS);
/// PersistentVolumeClaims.
pub const CLAIMS: Resource = Resource::new("", "v1", "persistentvolumeclaims");
/// PersistentVolumes.
pub const VOLUMES: Resource = Resource::new("", "v1", "persistentvolumes");
/// Nodes.
pub const NODES: Resource = Resource::new("", "v1", "nodes");

const fn of(kind: snapshot::Kind) -> Resource {
    Resource::new(kind.group, VERSION, kind.plural)
}
