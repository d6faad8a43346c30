//! Claims and the volumes that a provisioner made for them, as they look in a cluster that is used.

use serde_json::{Value, json};

use crate::world::DRIVER;

pub(crate) const VOLUMES: &str = "/api/v1/persistentvolumes";
pub(crate) const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// Name of the StorageClass.
pub(crate) const CLASS: &str = "fast";

/// What provisioners put on their volumes.
pub(crate) const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// A claim as a user writes it.
pub(crate) fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": CLASS,
            "resources": { "requests": { "storage": "1Mi" } },
        },
    })
}

/// A claim that has its volume.
pub(crate) fn bound_claim(name: &str, volume: &str) -> Value {
    let mut claim = claim(name);
    if let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("volumeName".to_owned(), json!(volume));
    }
    if let Some(metadata) = claim.get_mut("metadata") {
        *metadata = json!({
            "name": name,
            "labels": { "app.kubernetes.io/name": "database", "app.kubernetes.io/instance": name },
            "annotations": {
                "pv.kubernetes.io/bind-completed": "yes",
                "pv.kubernetes.io/bound-by-controller": "yes",
                "volume.beta.kubernetes.io/storage-provisioner": DRIVER,
                "volume.kubernetes.io/storage-provisioner": DRIVER,
            },
            "finalizers": ["kubernetes.io/pvc-protection"],
        });
    }
    claim
}

/// A volume as a provisioner creates it for a claim; `uid` is the claim's.
pub(crate) fn volume(name: &str, handle: &str, claim: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": {
                "pv.kubernetes.io/provisioned-by": DRIVER,
                "volume.kubernetes.io/provisioner-deletion-secret-name": "",
                "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
            },
            "finalizers": [FINALIZER],
        },
        "spec": {
            "capacity": { "storage": "1Mi" }, "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete", "storageClassName": CLASS,
            "volumeMode": "Filesystem",
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default",
                "name": claim, "uid": uid,
            },
            "csi": {
                "driver": DRIVER, "volumeHandle": handle, "fsType": "ext4",
                "volumeAttributes": {
                    "storage.kubernetes.io/csiProvisionerIdentity": "1700000000000-8081-bench.csi.example.com",
                },
            },
        },
    })
}
