//! Objects as people and other programs write them.

use serde_json::{Value, json};
use sidecar::snapshot::{CONTENT_BOUND, SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND};

/// VolumeSnapshot `ns/<name>` of the claim `p1`, with the class `c1`.
pub(crate) fn snapshot(name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": name, "namespace": "ns", "uid": uid},
        "spec": {"source": {"persistentVolumeClaimName": "p1"}, "volumeSnapshotClassName": "c1"},
    })
}

/// The same without a class.
pub(crate) fn classless(name: &str, uid: &str) -> Value {
    let mut snapshot = snapshot(name, uid);
    snapshot["spec"]
        .as_object_mut()
        .unwrap()
        .remove("volumeSnapshotClassName");
    snapshot
}

/// VolumeSnapshot `ns/<name>` of the content of that name, with the class `c1`.
pub(crate) fn of_content(name: &str, uid: &str, content: &str) -> Value {
    let mut snapshot = snapshot(name, uid);
    snapshot["spec"]["source"] = json!({"volumeSnapshotContentName": content});
    snapshot
}

/// The content that an administrator makes for the VolumeSnapshot `ns/<of>`.
pub(crate) fn handmade(name: &str, of: &str) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
        "metadata": {"name": name},
        "spec": {
            "volumeSnapshotRef": {"namespace": "ns", "name": of},
            "source": {"snapshotHandle": "snap-9"}, "driver": "T", "deletionPolicy": "Delete",
        },
    })
}

/// The content that this controller makes for the VolumeSnapshot `ns/<of>` with that UID.
pub(crate) fn content(of: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
        "metadata": {"name": format!("snapcontent-{uid}"), "finalizers": [CONTENT_BOUND]},
        "spec": {
            "volumeSnapshotRef": {
                "kind": "VolumeSnapshot", "apiVersion": "snapshot.storage.k8s.io/v1",
                "namespace": "ns", "name": of, "uid": uid,
            },
            "source": {"volumeHandle": "vol-1"}, "driver": "T", "deletionPolicy": "Delete",
            "volumeSnapshotClassName": "c1",
        },
    })
}

/// Status of a content whose snapshot was taken at 2026-01-02T03:04:05Z.
pub(crate) fn taken(ready: bool) -> Value {
    json!({
        "snapshotHandle": "snap-1", "creationTime": 1_767_323_045_000_000_000_i64,
        "restoreSize": 1_073_741_824, "readyToUse": ready,
    })
}

/// A VolumeSnapshot and its content after a successful snapshot.
pub(crate) fn ready(name: &str, uid: &str) -> (Value, Value) {
    let (mut snapshot, mut content) = (snapshot(name, uid), content(name, uid));
    snapshot["metadata"]["finalizers"] = json!([SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND]);
    snapshot["status"] = json!({
        "boundVolumeSnapshotContentName": format!("snapcontent-{uid}"),
        "creationTime": "2026-01-02T03:04:05Z", "restoreSize": "1Gi", "readyToUse": true,
    });
    content["status"] = taken(true);
    (snapshot, content)
}

/// A VolumeSnapshotClass with this name and driver.
pub(crate) fn class(name: &str, driver: &str) -> Value {
    json!({
        "metadata": {"name": name}, "driver": driver, "deletionPolicy": "Delete",
        "parameters": {"a": "b"},
    })
}

/// The same as the default class.
pub(crate) fn default_class(name: &str, driver: &str) -> Value {
    let mut class = class(name, driver);
    class["metadata"]["annotations"] =
        json!({"snapshot.storage.kubernetes.io/is-default-class": "true"});
    class
}

/// Claim `ns/<name>`, bound to that volume.
pub(crate) fn claim(name: &str, volume: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("claim-{name}"),
            "finalizers": ["kubernetes.io/pvc-protection"],
        },
        "spec": {"volumeName": volume}, "status": {"phase": "Bound"},
    })
}

/// Volume of the driver `T`, bound to the claim `ns/<claim>`.
pub(crate) fn volume(name: &str, claim: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "csi": {"driver": "T", "volumeHandle": "vol-1"}, "volumeMode": "Filesystem",
            "claimRef": {"namespace": "ns", "name": claim, "uid": format!("claim-{claim}")},
        },
    })
}

/// VolumeGroupSnapshot `ns/<name>` of the claims with the label `app=x`, with the class `g`.
pub(crate) fn group(name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot",
        "metadata": {"name": name, "namespace": "ns", "uid": uid},
        "spec": {
            "source": {"selector": {"matchLabels": {"app": "x"}}},
            "volumeGroupSnapshotClassName": "g",
        },
    })
}

/// A VolumeGroupSnapshotClass with this name and driver.
pub(crate) fn group_class(name: &str, driver: &str) -> Value {
    json!({"metadata": {"name": name}, "driver": driver, "deletionPolicy": "Delete"})
}

/// Claim `ns/<name>` with the label `app=x`, and its volume of the driver `T`.
pub(crate) fn labelled(name: &str, volume_name: &str, handle: &str) -> (Value, Value) {
    let (mut claim, mut volume) = (claim(name, volume_name), volume(volume_name, name));
    claim["metadata"]["labels"] = json!({"app": "x"});
    volume["spec"]["csi"]["volumeHandle"] = handle.into();
    (claim, volume)
}

/// Status of a group's content after both snapshots were taken.
pub(crate) fn taken_group(ready: bool) -> Value {
    json!({
        "volumeGroupSnapshotHandle": "grp-1", "readyToUse": ready,
        "creationTime": "2026-01-02T03:04:05Z",
        "volumeSnapshotInfoList": [
            {
                "volumeHandle": "vol-1", "snapshotHandle": "snap-1", "readyToUse": true,
                "creationTime": 1_767_323_045_000_000_000_i64, "restoreSize": 1_073_741_824,
            },
            {
                "volumeHandle": "vol-2", "snapshotHandle": "snap-2", "readyToUse": true,
                "creationTime": 1_767_323_045_000_000_000_i64,
            },
        ],
    })
}

/// The content that an administrator makes for the VolumeGroupSnapshot `ns/<of>`.
pub(crate) fn handmade_group(name: &str, of: &str) -> Value {
    json!({
        "apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshotContent",
        "metadata": {"name": name},
        "spec": {
            "volumeGroupSnapshotRef": {"namespace": "ns", "name": of},
            "source": {"groupSnapshotHandles": {
                "volumeGroupSnapshotHandle": "grp-9", "volumeSnapshotHandles": ["snap-8", "snap-9"],
            }},
            "driver": "T", "deletionPolicy": "Delete",
        },
    })
}
