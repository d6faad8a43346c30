//! The class, events and nodes as in a cluster in use.

use serde_json::{Value, json};

use crate::bound::CLASS;
use crate::world::DRIVER;

pub(crate) const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
pub(crate) const EVENTS: &str = "/api/v1/namespaces/default/events";
pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";

/// A class that binds immediately and deletes volumes with their claims.
pub(crate) fn class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": { "name": CLASS },
        "provisioner": DRIVER,
        "volumeBindingMode": "Immediate", "reclaimPolicy": "Delete",
    })
}

/// An event as provisioners record two for each claim.
pub(crate) fn event(claim: &str, uid: &str, reason: &str) -> Value {
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

/// A node in one of three zones, with the images that kubelet reports.
pub(crate) fn node(name: &str, index: usize) -> Value {
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

/// The driver's entry in the CSINode of a node.
pub(crate) fn csi_node(name: &str) -> Value {
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

/// Whether the claim is bound.
pub(crate) fn is_bound(claim: &Value) -> bool {
    claim.pointer("/status/phase").and_then(Value::as_str) == Some("Bound")
}

/// Whether the volume is released.
pub(crate) fn is_released(volume: &Value) -> bool {
    volume.pointer("/status/phase").and_then(Value::as_str) == Some("Released")
}
