//! The six CRDs, assembled from their schemas.

use serde_json::{Value, json};

use crate::schema;
use crate::types::field::Class;
use crate::types::{beta, group, snapshot};

/// One custom resource definition.
#[derive(Debug, Clone)]
pub struct Definition {
    /// Name of the file, as upstream names it.
    pub file: String,
    /// The CustomResourceDefinition.
    pub object: Value,
}

/// How a version is served and stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Served, and the storage version.
    Stored,
    /// Served.
    Served,
    /// Served, with a deprecation marker for users.
    Deprecated,
    /// Kept for objects stored long ago; not served.
    Past,
}

/// A kind with all its versions.
struct Kind {
    group: &'static str,
    /// Names: kind, plural, short names.
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    namespaced: bool,
    /// The Kubernetes review that approved the API; CRDs of its groups must name it.
    approved: &'static str,
    /// Whether it has a status subresource.
    status: bool,
    versions: Vec<(&'static str, Stage, Value)>,
    columns: &'static [Column],
}

/// A column of `kubectl get`: name, type, path, description.
type Column = (&'static str, &'static str, &'static str, &'static str);

const SNAPSHOTS: &str = "snapshot.storage.k8s.io";
const GROUPS: &str = "groupsnapshot.storage.k8s.io";
const V1: &str = "https://github.com/kubernetes-csi/external-snapshotter/pull/814";
const MODE: &str = "https://github.com/kubernetes-csi/external-snapshotter/pull/955";
const GROUPED: &str = "https://github.com/kubernetes-csi/external-snapshotter/pull/1337";

const AGE: Column = ("Age", "date", ".metadata.creationTimestamp", "");

/// All CRDs, those of single snapshots first.
pub fn all() -> Vec<Definition> {
    snapshots().iter().chain(&groups()).map(define).collect()
}

fn snapshots() -> [Kind; 3] {
    let class = schema::of::<Class>;
    [
        Kind {
            group: SNAPSHOTS,
            kind: "VolumeSnapshotClass",
            plural: "volumesnapshotclasses",
            short: &["vsclass", "vsclasses"],
            namespaced: false,
            approved: V1,
            status: false,
            versions: vec![
                ("v1", Stage::Stored, class()),
                ("v1beta1", Stage::Past, class()),
            ],
            columns: CLASS,
        },
        Kind {
            group: SNAPSHOTS,
            kind: "VolumeSnapshotContent",
            plural: "volumesnapshotcontents",
            short: &["vsc", "vscs"],
            namespaced: false,
            approved: MODE,
            status: true,
            versions: vec![
                (
                    "v1",
                    Stage::Stored,
                    schema::of::<snapshot::VolumeSnapshotContent>(),
                ),
                (
                    "v1beta1",
                    Stage::Past,
                    schema::of::<beta::VolumeSnapshotContent>(),
                ),
            ],
            columns: CONTENT,
        },
        Kind {
            group: SNAPSHOTS,
            kind: "VolumeSnapshot",
            plural: "volumesnapshots",
            short: &["vs"],
            namespaced: true,
            approved: V1,
            status: true,
            versions: vec![
                (
                    "v1",
                    Stage::Stored,
                    schema::of::<snapshot::VolumeSnapshot>(),
                ),
                ("v1beta1", Stage::Past, schema::of::<beta::VolumeSnapshot>()),
            ],
            columns: SNAPSHOT,
        },
    ]
}

fn groups() -> [Kind; 3] {
    let class = schema::of::<group::VolumeGroupSnapshotClass>;
    let group = schema::of::<group::VolumeGroupSnapshot>;
    let content = schema::of::<group::VolumeGroupSnapshotContent>;
    [
        Kind {
            group: GROUPS,
            kind: "VolumeGroupSnapshotClass",
            plural: "volumegroupsnapshotclasses",
            short: &["vgsclass", "vgsclasses"],
            namespaced: false,
            approved: GROUPED,
            status: false,
            versions: vec![
                ("v1", Stage::Served, class()),
                ("v1beta1", Stage::Deprecated, schema::of::<Class>()),
                ("v1beta2", Stage::Stored, class()),
            ],
            columns: CLASS,
        },
        Kind {
            group: GROUPS,
            kind: "VolumeGroupSnapshotContent",
            plural: "volumegroupsnapshotcontents",
            short: &["vgsc", "vgscs"],
            namespaced: false,
            approved: GROUPED,
            status: true,
            versions: vec![
                ("v1", Stage::Served, content()),
                (
                    "v1beta1",
                    Stage::Deprecated,
                    schema::of::<beta::VolumeGroupSnapshotContent>(),
                ),
                ("v1beta2", Stage::Stored, content()),
            ],
            columns: GROUP_CONTENT,
        },
        Kind {
            group: GROUPS,
            kind: "VolumeGroupSnapshot",
            plural: "volumegroupsnapshots",
            short: &["vgs"],
            namespaced: true,
            approved: GROUPED,
            status: true,
            versions: vec![
                ("v1", Stage::Served, group()),
                (
                    "v1beta1",
                    Stage::Deprecated,
                    schema::of::<beta::VolumeGroupSnapshot>(),
                ),
                ("v1beta2", Stage::Stored, group()),
            ],
            columns: GROUP,
        },
    ]
}

#[rustfmt::skip]
const CLASS: &[Column] = &[
    ("Driver", "string", ".driver", "The CSI driver."),
    ("DeletionPolicy", "string", ".deletionPolicy", "What happens to the snapshot in the storage system when its content is deleted."),
    AGE,
];

#[rustfmt::skip]
const SNAPSHOT: &[Column] = &[
    ("ReadyToUse", "boolean", ".status.readyToUse", "Whether a volume can be restored from it."),
    ("SourcePVC", "string", ".spec.source.persistentVolumeClaimName", "The claim whose volume it shows."),
    ("SourceSnapshotContent", "string", ".spec.source.volumeSnapshotContentName", "The content of a pre-provisioned snapshot."),
    ("RestoreSize", "string", ".status.restoreSize", "The least size of a volume restored from it."),
    ("SnapshotClass", "string", ".spec.volumeSnapshotClassName", "Its VolumeSnapshotClass."),
    ("SnapshotContent", "string", ".status.boundVolumeSnapshotContentName", "The content that it is bound to, if the content refers back to it."),
    ("CreationTime", "date", ".status.creationTime", "The time at which the snapshot was taken."),
    AGE,
];

#[rustfmt::skip]
const CONTENT: &[Column] = &[
    ("ReadyToUse", "boolean", ".status.readyToUse", "Whether a volume can be restored from it."),
    ("RestoreSize", "integer", ".status.restoreSize", "The least size of a volume restored from it, in bytes."),
    ("DeletionPolicy", "string", ".spec.deletionPolicy", "What happens to the snapshot in the storage system when this is deleted."),
    ("Driver", "string", ".spec.driver", "The CSI driver."),
    ("VolumeSnapshotClass", "string", ".spec.volumeSnapshotClassName", "The class that it was made with."),
    ("VolumeSnapshot", "string", ".spec.volumeSnapshotRef.name", "The VolumeSnapshot that it belongs to."),
    ("VolumeSnapshotNamespace", "string", ".spec.volumeSnapshotRef.namespace", "That one's namespace."),
    AGE,
];

#[rustfmt::skip]
const GROUP: &[Column] = &[
    ("ReadyToUse", "boolean", ".status.readyToUse", "Whether volumes can be restored from all its snapshots."),
    ("VolumeGroupSnapshotClass", "string", ".spec.volumeGroupSnapshotClassName", "Its VolumeGroupSnapshotClass."),
    ("VolumeGroupSnapshotContent", "string", ".status.boundVolumeGroupSnapshotContentName", "The content that it is bound to, if the content refers back to it."),
    ("CreationTime", "date", ".status.creationTime", "The moment that its snapshots show."),
    AGE,
];

#[rustfmt::skip]
const GROUP_CONTENT: &[Column] = &[
    ("ReadyToUse", "boolean", ".status.readyToUse", "Whether volumes can be restored from all its snapshots."),
    ("DeletionPolicy", "string", ".spec.deletionPolicy", "What happens to the group snapshot in the storage system when this is deleted."),
    ("Driver", "string", ".spec.driver", "The CSI driver."),
    ("VolumeGroupSnapshotClass", "string", ".spec.volumeGroupSnapshotClassName", "The class that it was made with."),
    ("VolumeGroupSnapshotNamespace", "string", ".spec.volumeGroupSnapshotRef.namespace", "Namespace of the VolumeGroupSnapshot that it belongs to."),
    ("VolumeGroupSnapshot", "string", ".spec.volumeGroupSnapshotRef.name", "That VolumeGroupSnapshot."),
    AGE,
];

fn define(kind: &Kind) -> Definition {
    let versions = kind.versions.iter().map(|it| version(kind, it));
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.{}", kind.plural, kind.group),
            "annotations": {"api-approved.kubernetes.io": kind.approved},
        },
        "spec": {
            // Stated explicitly, so that a conversion set by somebody else does not remain.
            "conversion": {"strategy": "None"},
            "group": kind.group,
            "names": {
                "kind": kind.kind,
                "listKind": format!("{}List", kind.kind),
                "plural": kind.plural,
                "shortNames": kind.short,
                "singular": kind.kind.to_lowercase(),
            },
            "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
            "versions": versions.collect::<Vec<_>>(),
        },
    });
    Definition {
        file: format!("{}_{}.yaml", kind.group, kind.plural),
        object,
    }
}

fn version(kind: &Kind, (name, stage, schema): &(&str, Stage, Value)) -> Value {
    let columns = kind.columns.iter().map(|(name, of, path, description)| {
        let mut column = json!({"name": name, "type": of, "jsonPath": path});
        if !description.is_empty() {
            insert(&mut column, "description", json!(description));
        }
        column
    });
    let mut version = json!({
        "name": name,
        "served": *stage != Stage::Past,
        "storage": *stage == Stage::Stored,
        "additionalPrinterColumns": columns.collect::<Vec<_>>(),
        "schema": {"openAPIV3Schema": object(schema)},
        "subresources": if kind.status { json!({"status": {}}) } else { json!({}) },
    });
    if matches!(stage, Stage::Deprecated | Stage::Past) {
        insert(&mut version, "deprecated", json!(true));
    }
    if *stage == Stage::Past {
        let (group, kind) = (kind.group, kind.kind);
        let warning = format!("{group}/{name} {kind} is deprecated; use {group}/v1 {kind}");
        insert(&mut version, "deprecationWarning", json!(warning));
    }
    version
}

/// Adds the fields that every object has to a type's schema.
fn object(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(properties) = schema.get_mut("properties") {
        for (name, of, description) in [
            ("apiVersion", "string", "Group and version of the API."),
            ("kind", "string", "Kind of the object."),
            ("metadata", "object", ""),
        ] {
            let mut property = json!({"type": of});
            if !description.is_empty() {
                insert(&mut property, "description", json!(description));
            }
            insert(properties, name, property);
        }
    }
    schema
}

fn insert(object: &mut Value, name: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}
