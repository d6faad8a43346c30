//! Objects as people write them.

use serde_json::{Value, json};
use sidecar::snapshot::group::{GET_SECRET_NAME_PARAMETER, GET_SECRET_NAMESPACE_PARAMETER};
use sidecar::snapshot::{CONTENT_BOUND, SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND};
use sidecar::text::Text;
use snapshotter::plan::request::{LIST_SECRET_NAME, LIST_SECRET_NAMESPACE};

pub(super) const DRIVER: &str = "T";
/// Another driver.
pub(super) const OTHER: &str = "other";
/// Name of the Secret for lists.
pub(super) const LISTING: &str = "list";

/// VolumeSnapshot `ns/<name>` of a claim, with a class.
pub(super) fn snapshot(name: &str, uid: &str, claim: &str, class: Option<&str>) -> Value {
    let mut snapshot = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": name, "namespace": "ns", "uid": uid},
        "spec": {"source": {"persistentVolumeClaimName": claim}},
    });
    if let Some(class) = class {
        snapshot["spec"]["volumeSnapshotClassName"] = class.into();
    }
    snapshot
}

/// VolumeSnapshot `ns/<name>` for a content that an administrator made.
pub(super) fn of_content(name: &str, uid: &str, content: &str) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": name, "namespace": "ns", "uid": uid},
        "spec": {"source": {"volumeSnapshotContentName": content}},
    })
}

/// The content that an administrator makes for the VolumeSnapshot `ns/<of>`.
pub(super) fn content(name: &str, of: &str, handle: &str, policy: &str) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
        "metadata": {"name": name},
        "spec": {
            "volumeSnapshotRef": {"namespace": "ns", "name": of},
            "source": {"snapshotHandle": handle}, "driver": DRIVER, "deletionPolicy": policy,
        },
    })
}

/// VolumeSnapshotClass. `cr` retains, `cs` names a Secret, `cl` one for lists, `d1` and `d2` are defaults.
pub(super) fn class(name: &str) -> Value {
    let policy = if name == "cr" { "Retain" } else { "Delete" };
    let mut class = json!({
        "metadata": {"name": name}, "driver": DRIVER, "deletionPolicy": policy,
        "parameters": {"a": "b"},
    });
    if name == "cs" {
        class["parameters"] = json!({
            "csi.storage.k8s.io/snapshotter-secret-name": "sec",
            "csi.storage.k8s.io/snapshotter-secret-namespace": "ns",
        });
    }
    if name == "cl" {
        class["parameters"] = json!({LIST_SECRET_NAME: LISTING, LIST_SECRET_NAMESPACE: "ns"});
    }
    if name == "d1" || name == "d2" {
        class["metadata"]["annotations"] =
            json!({"snapshot.storage.kubernetes.io/is-default-class": "true"});
    }
    class
}

/// Secret `ns/<name>`.
pub(super) fn secret(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns"}})
}

/// Field of a Secret whose values are no text.
pub(super) const BINARY: &str = "binary";

/// The value in the Secret of this name.
pub(super) fn value_of(secret: &str) -> &'static str {
    if secret == LISTING { "l" } else { "s" }
}

/// Claim `ns/<name>`, bound to that volume.
pub(super) fn claim(name: &str, volume: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("claim-{name}"),
            "labels": {"app": "x"}, "finalizers": ["kubernetes.io/pvc-protection"],
        },
        "spec": {"volumeName": volume}, "status": {"phase": "Bound"},
    })
}

/// Claim `ns/r-<of>`, which restores from a VolumeSnapshot.
pub(super) fn restored(of: &str) -> Value {
    let mut claim = claim(&format!("r-{of}"), "");
    claim["status"]["phase"] = "Pending".into();
    claim["metadata"]["finalizers"] = json!([]);
    claim["metadata"]["labels"] = json!({});
    claim["spec"]["dataSource"] =
        json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": of});
    claim
}

/// Claim `away/r-<of>`, which tries to restore from a VolumeSnapshot of another namespace, without a grant.
pub(super) fn restored_elsewhere(of: &str) -> Value {
    let mut claim = restored(of);
    claim["metadata"]["namespace"] = "away".into();
    claim["spec"] = json!({"dataSourceRef": {
        "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": of, "namespace": "ns",
    }});
    claim
}

/// The content `kept-<uid>` and its VolumeSnapshot `ns/<name>`, as a backup tool applies them again: with
/// their finalizers and status.
pub(super) fn applied_again(name: &str, uid: &str) -> (Value, Value) {
    let kept = format!("kept-{uid}");
    let content = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
        "metadata": {"name": kept, "finalizers": [CONTENT_BOUND]},
        "spec": {
            "volumeSnapshotRef": {
                "kind": "VolumeSnapshot", "apiVersion": "snapshot.storage.k8s.io/v1",
                "namespace": "ns", "name": name, "uid": uid,
            },
            "source": {"volumeHandle": "vol-pv1"}, "driver": DRIVER, "deletionPolicy": "Delete",
            "volumeSnapshotClassName": "c1",
        },
    });
    let mut again = snapshot(name, uid, "p1", Some("c1"));
    again["metadata"]["finalizers"] = json!([SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND]);
    again["status"] = json!({"boundVolumeSnapshotContentName": kept, "readyToUse": false});
    (content, again)
}

/// Volume of the driver, bound to the claim `ns/<claim>`.
pub(super) fn volume(name: &str, claim: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "csi": {"driver": DRIVER, "volumeHandle": format!("vol-{name}")},
            "volumeMode": "Filesystem",
            "claimRef": {"namespace": "ns", "name": claim, "uid": format!("claim-{claim}")},
        },
    })
}

/// VolumeGroupSnapshot `ns/<name>` of the labelled claims, with a class.
pub(super) fn group(name: &str, uid: &str, class: Option<&str>) -> Value {
    let mut group = json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot",
        "metadata": {"name": name, "namespace": "ns", "uid": uid},
        "spec": {"source": {"selector": {"matchLabels": {"app": "x"}}}},
    });
    if let Some(class) = class {
        group["spec"]["volumeGroupSnapshotClassName"] = class.into();
    }
    group
}

/// VolumeGroupSnapshot `ns/<name>` for a content that an administrator made.
pub(super) fn group_of_content(name: &str, uid: &str, content: &str) -> Value {
    json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot",
        "metadata": {"name": name, "namespace": "ns", "uid": uid},
        "spec": {"source": {"volumeGroupSnapshotContentName": content}},
    })
}

/// The content that an administrator makes for the VolumeGroupSnapshot `ns/<of>`.
pub(super) fn group_content(
    name: &str,
    of: &str,
    (group, members): (&str, &[Text]),
    policy: &str,
) -> Value {
    let members: Vec<&str> = members.iter().map(|member| &**member).collect();
    json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshotContent",
        "metadata": {"name": name},
        "spec": {
            "volumeGroupSnapshotRef": {"namespace": "ns", "name": of},
            "source": {"groupSnapshotHandles": {
                "volumeGroupSnapshotHandle": group, "volumeSnapshotHandles": members,
            }},
            "driver": DRIVER, "deletionPolicy": policy,
        },
    })
}

/// VolumeGroupSnapshotClass. `gr` retains, `gs` names a Secret, `gl` one for look-ups, `gd` is the default.
pub(super) fn group_class(name: &str) -> Value {
    let policy = if name == "gr" { "Retain" } else { "Delete" };
    let mut class = json!({
        "metadata": {"name": name}, "driver": DRIVER, "deletionPolicy": policy,
        "parameters": {"a": "b"},
    });
    if name == "gs" {
        class["parameters"] = json!({
            "csi.storage.k8s.io/group-snapshotter-secret-name": "sec",
            "csi.storage.k8s.io/group-snapshotter-secret-namespace": "ns",
        });
    }
    if name == "gl" {
        class["parameters"] = json!({
            GET_SECRET_NAME_PARAMETER: LISTING, GET_SECRET_NAMESPACE_PARAMETER: "ns",
        });
    }
    if name == "gd" {
        class["metadata"]["annotations"] =
            json!({"groupsnapshot.storage.kubernetes.io/is-default-class": "true"});
    }
    class
}
