//! Snapshots as in a cluster in use.

use anyhow::Result;
use serde_json::{Value, json};

use crate::load::Load;
use crate::world::{DRIVER, Driver, World};

pub(crate) const SNAPSHOTS: &str =
    "/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots";
pub(crate) const CONTENTS: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents";
const CLASSES: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses";
const VERSION: &str = "snapshot.storage.k8s.io/v1";

/// Name of the VolumeSnapshotClass.
const CLASS: &str = "nightly";

const TAKEN: &str = "2026-03-14T02:00:07Z";
const TAKEN_NS: i64 = 1_773_453_607_000_000_000;

/// A driver that takes snapshots, at once.
pub(crate) fn driver(world: &World) -> Result<Driver> {
    let driver = world.driver()?;
    let capabilities = [
        "CREATE_DELETE_VOLUME",
        "CREATE_DELETE_SNAPSHOT",
        "LIST_SNAPSHOTS",
    ];
    let settings = json!({ "capabilities": { "controller": capabilities } });
    driver.control.set(&settings)?;
    Ok(driver)
}

pub(crate) fn create_class(load: &Load) -> Result<()> {
    let class = e2e::object::snapshot_class(CLASS, DRIVER, "Delete");
    load.create(CLASSES, std::iter::once(class))?;
    Ok(())
}

/// A VolumeSnapshot as its user creates it.
pub(crate) fn snapshot(name: &str, claim: &str) -> Value {
    e2e::object::snapshot_of(name, CLASS, claim)
}

/// A [`snapshot`] as snapshot-controller leaves it; its status has to be written separately.
pub(crate) fn taken(name: &str, claim: &str) -> Value {
    let metadata = json!({ "metadata": {
        "labels": { "app.kubernetes.io/managed-by": "backup", "backup/schedule": "nightly" },
        "finalizers": [
            "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection",
            "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection",
        ],
    }});
    e2e::object::with(snapshot(name, claim), &metadata)
}

/// Name of the content of the VolumeSnapshot with this UID.
pub(crate) fn content_name(uid: &str) -> String {
    format!("snapcontent-{uid}")
}

/// The status of a ready VolumeSnapshot.
pub(crate) fn snapshot_status(uid: &str) -> Value {
    json!({ "status": {
        "boundVolumeSnapshotContentName": content_name(uid),
        "creationTime": TAKEN, "readyToUse": true, "restoreSize": "1Mi",
    }})
}

/// The content of a VolumeSnapshot.
pub(crate) fn content(name: &str, uid: &str, volume: &str) -> Value {
    json!({
        "apiVersion": VERSION, "kind": "VolumeSnapshotContent",
        "metadata": {
            "name": content_name(uid),
            "finalizers": ["snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"],
        },
        "spec": {
            "deletionPolicy": "Delete", "driver": DRIVER, "sourceVolumeMode": "Filesystem",
            "source": { "volumeHandle": volume }, "volumeSnapshotClassName": CLASS,
            "volumeSnapshotRef": {
                "apiVersion": VERSION, "kind": "VolumeSnapshot", "namespace": "default",
                "name": name, "resourceVersion": "123456", "uid": uid,
            },
        },
    })
}

/// The status of a content whose snapshot is taken.
pub(crate) fn content_status(handle: &str) -> Value {
    json!({ "status": {
        "creationTime": TAKEN_NS, "readyToUse": true, "restoreSize": 1_048_576,
        "snapshotHandle": handle,
    }})
}

/// Whether a VolumeSnapshot is ready.
pub(crate) fn is_ready(snapshot: &Value) -> bool {
    snapshot.pointer("/status/readyToUse") == Some(&Value::Bool(true))
}
