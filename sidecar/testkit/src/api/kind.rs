//! The resources that the model serves, and their deviations from the general rules.
//!
//! Separate because this table is, besides validation, the only place where the model names particular
//! kinds. Facts come from the registry strategies of Kubernetes 1.36 as observed from outside.

use std::sync::Arc;

use serde_json::Value;

/// One resource type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// API group, empty for the core group.
    pub group: String,
    /// API version, such as `v1`.
    pub version: String,
    /// Other versions under which the same objects are served, unconverted.
    pub others: Vec<String>,
    /// Plural name in URLs.
    pub resource: String,
    /// Name in objects.
    pub kind: String,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// The behaviour of `/status`.
    pub status: Status,
    /// Whether a PUT without `resourceVersion` is accepted.
    pub unconditional_update: bool,
    /// Whether the type comes from a CustomResourceDefinition: no strategic merge patch.
    pub custom: bool,
    /// Fields missing in the definition, which are dropped from written objects; JSON pointers to
    /// members of objects.
    pub without: Vec<String>,
}

/// How a type handles its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// No `/status`; the field, if any, is written like any other.
    Absent,
    /// `/status` writes status and metadata, the main resource everything but status.
    WithMetadata,
    /// Like [`Status::WithMetadata`], but metadata changes through `/status` are ignored.
    Alone,
}

impl Kind {
    /// A cluster-scoped type without status that accepts unconditional updates.
    #[must_use]
    pub fn new(group: &str, version: &str, resource: &str, kind: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            others: Vec::new(),
            resource: resource.to_owned(),
            kind: kind.to_owned(),
            namespaced: false,
            status: Status::Absent,
            unconditional_update: true,
            custom: false,
            without: Vec::new(),
        }
    }

    /// The same type, namespaced.
    #[must_use]
    pub fn namespaced(mut self) -> Self {
        self.namespaced = true;
        self
    }

    /// The same type with a status subresource.
    #[must_use]
    pub fn status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    /// The same type, refusing a PUT without `resourceVersion`.
    #[must_use]
    pub fn conditional(mut self) -> Self {
        self.unconditional_update = false;
        self
    }

    /// The same type, from a CustomResourceDefinition.
    #[must_use]
    pub fn custom(mut self) -> Self {
        self.custom = true;
        self.unconditional_update = false;
        self
    }

    /// The same type, served under these versions as well.
    #[must_use]
    pub fn also(mut self, versions: &[&str]) -> Self {
        self.others = versions.iter().map(|&one| one.to_owned()).collect();
        self
    }

    /// The type at this version, if it is served.
    pub(super) fn under(self: &Arc<Self>, version: &str) -> Option<Arc<Self>> {
        if self.version == version {
            return Some(Arc::clone(self));
        }
        let served = self.others.iter().any(|one| one == version);
        served.then(|| {
            Arc::new(Self {
                version: version.to_owned(),
                ..(**self).clone()
            })
        })
    }

    /// All versions under which the type is served.
    pub(super) fn versions(&self) -> impl Iterator<Item = &str> {
        let others = self.others.iter().map(String::as_str);
        std::iter::once(self.version.as_str()).chain(others)
    }

    /// `group/version`, or just the version for the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Converts a stored object, or each of a list, to this version.
    pub(super) fn show(&self, value: &mut Value) {
        if self.others.is_empty() {
            return;
        }
        if value["kind"] == self.kind {
            value["apiVersion"] = self.api_version().into();
        }
        for item in value["items"].as_array_mut().into_iter().flatten() {
            item["apiVersion"] = self.api_version().into();
        }
    }

    /// `resource.group`, the form in the server's messages.
    #[must_use]
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.resource.clone()
        } else {
            format!("{}.{}", self.resource, self.group)
        }
    }
}

/// The types that sidecars use.
pub(super) fn known() -> Vec<Arc<Kind>> {
    let mut kinds = core();
    kinds.extend(storage());
    kinds.extend(other());
    kinds.extend(custom());
    kinds.into_iter().map(Arc::new).collect()
}

fn core() -> Vec<Kind> {
    let kind = |resource, kind| Kind::new("", "v1", resource, kind);
    vec![
        kind("namespaces", "Namespace").status(Status::WithMetadata),
        kind("nodes", "Node").status(Status::WithMetadata),
        kind("persistentvolumes", "PersistentVolume").status(Status::WithMetadata),
        kind("persistentvolumeclaims", "PersistentVolumeClaim")
            .namespaced()
            .status(Status::WithMetadata),
        kind("pods", "Pod")
            .namespaced()
            .status(Status::WithMetadata),
        kind("secrets", "Secret").namespaced(),
        kind("configmaps", "ConfigMap").namespaced(),
        kind("events", "Event").namespaced(),
        kind("serviceaccounts", "ServiceAccount").namespaced(),
    ]
}

fn storage() -> Vec<Kind> {
    let kind = |resource, kind| Kind::new("storage.k8s.io", "v1", resource, kind);
    vec![
        kind("storageclasses", "StorageClass"),
        kind("csidrivers", "CSIDriver").conditional(),
        kind("csinodes", "CSINode").conditional(),
        kind("volumeattachments", "VolumeAttachment")
            .status(Status::Alone)
            .conditional(),
        kind("csistoragecapacities", "CSIStorageCapacity")
            .namespaced()
            .conditional(),
        kind("volumeattributesclasses", "VolumeAttributesClass").conditional(),
    ]
}

fn other() -> Vec<Kind> {
    vec![
        Kind::new("coordination.k8s.io", "v1", "leases", "Lease")
            .namespaced()
            .conditional(),
        Kind::new("events.k8s.io", "v1", "events", "Event").namespaced(),
        Kind::new("apps", "v1", "replicasets", "ReplicaSet").namespaced(),
        Kind::new("apps", "v1", "deployments", "Deployment").namespaced(),
        Kind::new("apps", "v1", "daemonsets", "DaemonSet").namespaced(),
        Kind::new("apps", "v1", "statefulsets", "StatefulSet").namespaced(),
    ]
}

fn custom() -> Vec<Kind> {
    let group = |resource, kind| {
        let kind = Kind::new("groupsnapshot.storage.k8s.io", "v1", resource, kind);
        kind.custom().also(&["v1beta2", "v1beta1"])
    };
    let snapshot = |resource, kind| Kind::new("snapshot.storage.k8s.io", "v1", resource, kind);
    vec![
        snapshot("volumesnapshots", "VolumeSnapshot")
            .custom()
            .namespaced()
            .status(Status::WithMetadata),
        snapshot("volumesnapshotcontents", "VolumeSnapshotContent")
            .custom()
            .status(Status::WithMetadata),
        snapshot("volumesnapshotclasses", "VolumeSnapshotClass").custom(),
        group("volumegroupsnapshots", "VolumeGroupSnapshot")
            .namespaced()
            .status(Status::WithMetadata),
        group("volumegroupsnapshotcontents", "VolumeGroupSnapshotContent")
            .status(Status::WithMetadata),
        group("volumegroupsnapshotclasses", "VolumeGroupSnapshotClass"),
        Kind::new(
            "cbt.storage.k8s.io",
            "v1beta1",
            "snapshotmetadataservices",
            "SnapshotMetadataService",
        )
        .custom(),
        Kind::new(
            "gateway.networking.k8s.io",
            "v1beta1",
            "referencegrants",
            "ReferenceGrant",
        )
        .custom()
        .namespaced(),
    ]
}
