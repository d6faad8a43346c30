//! Classes, claims, volumes and nodes, as they look in a cluster that is used.

use serde_json::{Value, json};

use crate::world::DRIVER;

pub(super) const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
pub(super) const VOLUMES: &str = "/api/v1/persistentvolumes";
pub(super) const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
pub(super) const EVENTS: &str = "/api/v1/namespaces/default/events";
pub(super) const NODES: &str = "/api/v1/nodes";
pub(super) const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";

/// Name of the StorageClass.
pub(super) const CLASS: &str = "fast";

/// What provisioners put on their volumes.
pub(super) const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// Volumes as soon as they are asked for, deleted with their claims.
pub(super) fn class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": { "name": CLASS },
        "provisioner": DRIVER,
        "volumeBindingMode": "Immediate", "reclaimPolicy": "Delete",
    })
}

/// A claim as a user writes it.
pub(super) fn claim(name: &str) -> Value {
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
pub(super) fn bound_claim(name: &str, volume: &str) -> Value {
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

/// A volume as a provisioner creates it for a claim.
pub(super) fn volume(name: &str, claim: &str, uid: &str) -> Value {
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
                "driver": DRIVER, "volumeHandle": format!("vol-{name}"), "fsType": "ext4",
                "volumeAttributes": {
                    "storage.kubernetes.io/csiProvisionerIdentity": "1700000000000-8081-bench.csi.example.com",
                },
            },
        },
    })
}

/// An event as provisioners write two of for each claim.
pub(super) fn event(claim: &str, uid: &str, reason: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": format!("{claim}.{}", reason.to_lowercase()) },
        "involvedObject": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default",
            "name": claim, "uid": uid,
        },
        "reason": reason, "type": "Normal", "count": 1,
        "message": "External provisioner is provisioning volume for claim \"default/claim\"",
        "source": { "component": "reference" },
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
    })
}

/// A node in one of three zones, with what kubelet says of its images.
pub(super) fn node(name: &str, index: usize) -> Value {
    let images: Vec<Value> = (0..20)
        .map(|image| {
            json!({
                "names": [format!("registry.example.com/team/service-{image}@sha256:{image:064x}"), format!("registry.example.com/team/service-{image}:v1.2.{image}")],
                "sizeBytes": 123_456_789,
            })
        })
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/region": "region", "topology.kubernetes.io/zone": format!("zone-{}", index % 3),
            "topology.bench.csi.example.com/zone": format!("zone-{}", index % 3),
            "node.kubernetes.io/instance-type": "m5.2xlarge",
        } },
        "spec": { "unschedulable": true },
        "status": { "images": images, "capacity": { "cpu": "8", "memory": "32Gi", "pods": "110" } },
    })
}

/// The driver as registered on that node.
pub(super) fn csi_node(name: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
        "metadata": { "name": name },
        "spec": { "drivers": [{
            "name": DRIVER, "nodeID": format!("i-{name}"),
            "topologyKeys": ["topology.bench.csi.example.com/zone"],
            "allocatable": { "count": 25 },
        }] },
    })
}

/// Whether the claim has its volume.
pub(super) fn is_bound(claim: &Value) -> bool {
    claim.pointer("/status/phase").and_then(Value::as_str) == Some("Bound")
}
