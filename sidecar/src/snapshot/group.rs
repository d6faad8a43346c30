//! Strings of group snapshots: parameters of classes and of calls, and the tokens of Secret
//! templates.
//!
//! Kinds, finalizers and annotations of groups are in the parent module, with those of single
//! snapshots.

/// Class parameter: template of the name of the Secret for creation and deletion. The controller
/// resolves it into annotations of the content.
pub const SECRET_NAME_PARAMETER: &str = "csi.storage.k8s.io/group-snapshotter-secret-name";
/// See [`SECRET_NAME_PARAMETER`].
pub const SECRET_NAMESPACE_PARAMETER: &str =
    "csi.storage.k8s.io/group-snapshotter-secret-namespace";
/// Class parameter: template of the name of the Secret for lookups. The sidecar resolves it.
pub const GET_SECRET_NAME_PARAMETER: &str = "csi.storage.k8s.io/group-snapshotter-get-secret-name";
/// See [`GET_SECRET_NAME_PARAMETER`].
pub const GET_SECRET_NAMESPACE_PARAMETER: &str =
    "csi.storage.k8s.io/group-snapshotter-get-secret-namespace";

/// Template token: name of the VolumeGroupSnapshotContent. The only token in templates for lookups.
pub const CONTENT_NAME_TOKEN: &str = "volumegroupsnapshotcontent.name";
/// Template token: namespace of the VolumeGroupSnapshot.
pub const NAMESPACE_TOKEN: &str = "volumegroupsnapshot.namespace";
/// Template token: name of the VolumeGroupSnapshot; not in the template of a namespace.
pub const NAME_TOKEN: &str = "volumegroupsnapshot.name";

/// Parameter of a CreateVolumeGroupSnapshot call: name of the VolumeGroupSnapshot.
pub const NAME_METADATA: &str = "csi.storage.k8s.io/volumegroupsnapshot/name";
/// Parameter of a CreateVolumeGroupSnapshot call: namespace of the VolumeGroupSnapshot.
pub const NAMESPACE_METADATA: &str = "csi.storage.k8s.io/volumegroupsnapshot/namespace";
/// Parameter of a CreateVolumeGroupSnapshot call: name of the VolumeGroupSnapshotContent.
pub const CONTENT_NAME_METADATA: &str = "csi.storage.k8s.io/volumegroupsnapshotcontent/name";

/// Resource of status writes to contents, in roles.
pub const CONTENT_STATUS: &str = "volumegroupsnapshotcontents/status";
