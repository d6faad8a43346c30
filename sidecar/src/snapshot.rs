//! Strings of the snapshot API that `csi-snapshotter` and `snapshot-controller` must spell identically.
//!
//! The two programs never talk to each other: their contract is one VolumeSnapshotContent (or
//! VolumeGroupSnapshotContent), and these are its strings. A different spelling leaves objects Terminating
//! or snapshots in storage for ever while a cluster migrates from upstream's programs.
//!
//! All of them come from external-snapshotter, unless a comment names another source.

pub mod content;
pub mod group;
pub mod secret;

use crate::text::Text;

/// The VolumeSnapshot or VolumeGroupSnapshot that a content is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotRef {
    /// `namespace`
    pub namespace: Text,
    /// `name`
    pub name: Text,
    /// `uid`, empty before it is bound.
    pub uid: Text,
}

/// The fate of the snapshot when its VolumeSnapshot is deleted: `deletionPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The snapshot is deleted.
    Delete,
    /// The snapshot stays; also stands for unknown policies.
    #[default]
    Retain,
}

impl Policy {
    /// Parses `deletionPolicy`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        match text {
            "Delete" => Self::Delete,
            _ => Self::Retain,
        }
    }

    /// The value of `deletionPolicy`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Delete => "Delete",
            Self::Retain => "Retain",
        }
    }
}

/// API group of VolumeSnapshots, their contents and classes.
pub const GROUP: &str = "snapshot.storage.k8s.io";
/// API group of VolumeGroupSnapshots, their contents and classes.
pub const GROUP_SNAPSHOT_GROUP: &str = "groupsnapshot.storage.k8s.io";
/// Version of both groups that is served and stored.
pub const VERSION: &str = "v1";
/// `apiVersion` of VolumeSnapshots, their contents and classes.
pub const API_VERSION: &str = "snapshot.storage.k8s.io/v1";
/// `apiVersion` of VolumeGroupSnapshots, their contents and classes; the owner reference of a member has
/// exactly this one.
pub const GROUP_API_VERSION: &str = "groupsnapshot.storage.k8s.io/v1";

/// A kind of the snapshot API: `kind` of its objects, and their resource in paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// API group.
    pub group: &'static str,
    /// `kind` of the objects.
    pub kind: &'static str,
    /// The resource in paths, roles and custom resource definitions.
    pub plural: &'static str,
}

/// Namespaced; `status` is a subresource.
pub const SNAPSHOT: Kind = Kind {
    group: GROUP,
    kind: "VolumeSnapshot",
    plural: "volumesnapshots",
};
/// Cluster-scoped; `status` is a subresource.
pub const CONTENT: Kind = Kind {
    group: GROUP,
    kind: "VolumeSnapshotContent",
    plural: "volumesnapshotcontents",
};
/// Cluster-scoped, without status.
pub const CLASS: Kind = Kind {
    group: GROUP,
    kind: "VolumeSnapshotClass",
    plural: "volumesnapshotclasses",
};
/// Namespaced; `status` is a subresource.
pub const GROUP_SNAPSHOT: Kind = Kind {
    group: GROUP_SNAPSHOT_GROUP,
    kind: "VolumeGroupSnapshot",
    plural: "volumegroupsnapshots",
};
/// Cluster-scoped; `status` is a subresource.
pub const GROUP_CONTENT: Kind = Kind {
    group: GROUP_SNAPSHOT_GROUP,
    kind: "VolumeGroupSnapshotContent",
    plural: "volumegroupsnapshotcontents",
};
/// Cluster-scoped, without status.
pub const GROUP_CLASS: Kind = Kind {
    group: GROUP_SNAPSHOT_GROUP,
    kind: "VolumeGroupSnapshotClass",
    plural: "volumegroupsnapshotclasses",
};

/// Finalizer on every living VolumeSnapshot; set and removed by the controller.
pub const SNAPSHOT_AS_SOURCE: &str =
    "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection";
/// Finalizer on a VolumeSnapshot whose content's policy is `Delete`; set and removed by the controller.
pub const SNAPSHOT_BOUND: &str = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
/// Finalizer on a member of a group; set and removed by the controller.
pub const SNAPSHOT_IN_GROUP: &str =
    "snapshot.storage.kubernetes.io/volumesnapshot-in-group-protection";
/// Finalizer on a VolumeSnapshotContent; set by the controller, removed by the sidecar.
pub const CONTENT_BOUND: &str =
    "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";
/// Finalizer on a claim that an unready VolumeSnapshot names; set and removed by the controller.
pub const CLAIM_AS_SOURCE: &str = "snapshot.storage.kubernetes.io/pvc-as-source-protection";
/// Finalizer on a VolumeGroupSnapshotContent; set by the controller, removed by the sidecar.
pub const GROUP_CONTENT_BOUND: &str =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshotcontent-bound-protection";
/// Finalizer on a bound VolumeGroupSnapshot; set and removed by the controller.
pub const GROUP_SNAPSHOT_BOUND: &str =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-bound-protection";
/// Finalizer on a VolumeSnapshot that is being restored. From external-provisioner since 6.2; set and
/// removed by the provisioner, kept by all others.
pub const SNAPSHOT_IN_USE: &str =
    "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection";

/// Error in the status of a VolumeSnapshot whose content is gone, in upstream's words.
pub const MISSING: &str = "VolumeSnapshotContent is missing";
/// Error in the status of a VolumeSnapshot whose content is bound to another one, in upstream's words.
pub const MISBOUND: &str = "VolumeSnapshotContent is not bound to the VolumeSnapshot correctly";

/// Value of the annotations below that mark a fact; readers only check that they exist.
pub const YES: &str = "yes";
/// Annotation on a VolumeSnapshotContent: a CreateSnapshot call may have had an effect. The sidecar's own
/// memory: set before the call, removed on success or when the driver refused.
pub const BEING_CREATED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-created";
/// Annotation on a VolumeSnapshotContent: its VolumeSnapshot is being deleted, whatever the deletion
/// policy. Set by the controller, never removed.
pub const BEING_DELETED: &str = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted";
/// Annotation on a VolumeGroupSnapshotContent, as [`BEING_CREATED`].
pub const GROUP_BEING_CREATED: &str =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-created";
/// Annotation on a VolumeGroupSnapshotContent, as [`BEING_DELETED`].
pub const GROUP_BEING_DELETED: &str =
    "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-deleted";
/// Annotation on a VolumeSnapshotContent: name of the Secret for its calls, including creation despite the
/// name. Set by the controller from the class, or by an administrator.
pub const DELETION_SECRET_NAME: &str = "snapshot.storage.kubernetes.io/deletion-secret-name";
/// See [`DELETION_SECRET_NAME`].
pub const DELETION_SECRET_NAMESPACE: &str =
    "snapshot.storage.kubernetes.io/deletion-secret-namespace";
/// Annotation on a VolumeGroupSnapshotContent, as [`DELETION_SECRET_NAME`].
pub const GROUP_DELETION_SECRET_NAME: &str =
    "groupsnapshot.storage.kubernetes.io/deletion-secret-name";
/// See [`GROUP_DELETION_SECRET_NAME`].
pub const GROUP_DELETION_SECRET_NAMESPACE: &str =
    "groupsnapshot.storage.kubernetes.io/deletion-secret-namespace";
/// Annotation on a member's VolumeSnapshotContent: the group's handle. Set by the controller. The
/// domain is the API group's, unlike that of all others.
pub const GROUP_HANDLE: &str = "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle";
/// Annotation on a VolumeSnapshotClass: `"true"`, exactly, makes it the default of its driver.
pub const DEFAULT_CLASS: &str = "snapshot.storage.kubernetes.io/is-default-class";
/// Annotation on a VolumeGroupSnapshotClass, as [`DEFAULT_CLASS`].
pub const DEFAULT_GROUP_CLASS: &str = "groupsnapshot.storage.kubernetes.io/is-default-class";
/// Label on a VolumeSnapshotContent: the node whose sidecar handles it. Set by the controller with
/// distributed snapshotting, or by an administrator.
pub const MANAGED_BY: &str = "snapshot.storage.kubernetes.io/managed-by";
/// Annotation on a VolumeSnapshotContent: claims restored from it may have another volume mode. Set
/// by an administrator, read by the provisioner.
pub const ALLOW_MODE_CHANGE: &str = "snapshot.storage.kubernetes.io/allow-volume-mode-change";

/// Annotation on a VolumeSnapshotContent: topologies in which the snapshot must be usable, as JSON of a
/// list of TopologySelectorTerm. Ours; set by the controller from the class, or by an administrator. A
/// class has the same annotation.
pub const ALLOWED_TOPOLOGIES: &str = "csi-sidecars.io/snapshot-allowed-topologies";
/// Annotation on a VolumeSnapshotContent: topologies from which volumes restored from the snapshot are
/// accessible, as JSON of a list of segments. Ours; set by the sidecar, never removed.
pub const ACCESSIBLE_TOPOLOGY: &str = "csi-sidecars.io/snapshot-accessible-topology";

/// Prefix of a class's parameters that are for the sidecars, not for the driver.
pub const PARAMETER_PREFIX: &str = "csi.storage.k8s.io/";
/// Class parameter: template of the Secret's name.
pub const SECRET_NAME_PARAMETER: &str = "csi.storage.k8s.io/snapshotter-secret-name";
/// Class parameter: template of the Secret's namespace.
pub const SECRET_NAMESPACE_PARAMETER: &str = "csi.storage.k8s.io/snapshotter-secret-namespace";

/// Name of the content of a dynamically provisioned VolumeSnapshot with this UID.
pub fn content_name(uid: &str) -> String {
    format!("snapcontent-{uid}")
}

/// Name of the content of a dynamically provisioned VolumeGroupSnapshot with this UID.
pub fn group_content_name(uid: &str) -> String {
    format!("groupsnapcontent-{uid}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_and_finalizers_are_of_the_domain_of_their_kind() {
        for one in [
            SNAPSHOT_AS_SOURCE,
            SNAPSHOT_BOUND,
            SNAPSHOT_IN_GROUP,
            CONTENT_BOUND,
            CLAIM_AS_SOURCE,
            BEING_CREATED,
            BEING_DELETED,
            DELETION_SECRET_NAME,
            DELETION_SECRET_NAMESPACE,
            DEFAULT_CLASS,
            MANAGED_BY,
            ALLOW_MODE_CHANGE,
        ] {
            assert!(one.starts_with("snapshot.storage.kubernetes.io/"), "{one}");
        }
        for one in [
            GROUP_CONTENT_BOUND,
            GROUP_SNAPSHOT_BOUND,
            GROUP_BEING_CREATED,
            GROUP_BEING_DELETED,
            GROUP_DELETION_SECRET_NAME,
            GROUP_DELETION_SECRET_NAMESPACE,
            DEFAULT_GROUP_CLASS,
        ] {
            assert!(
                one.starts_with("groupsnapshot.storage.kubernetes.io/"),
                "{one}"
            );
        }
        for kind in [SNAPSHOT, CONTENT, CLASS] {
            assert_eq!(format!("{}/{VERSION}", kind.group), API_VERSION);
        }
        for kind in [GROUP_SNAPSHOT, GROUP_CONTENT, GROUP_CLASS] {
            assert_eq!(format!("{}/{VERSION}", kind.group), GROUP_API_VERSION);
        }
    }

    #[test]
    fn generated_names() {
        assert_eq!(content_name("U1"), "snapcontent-U1");
        assert_eq!(group_content_name("U1"), "groupsnapcontent-U1");
    }
}
