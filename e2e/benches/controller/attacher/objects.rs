//! Volumes, nodes and attachments as in a cluster in use.

use serde_json::{Value, json};

use crate::bound;
use crate::world::DRIVER;

pub(crate) const NODES: &str = "/apis/storage.k8s.io/v1/csinodes";
pub(crate) const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

/// The attacher's finalizer on volumes and attachments of the driver.
pub(crate) const FINALIZER: &str = "external-attacher/bench-csi-example-com";

/// A provisioned volume in use, with all fields that provisioners and attachers write.
pub(crate) fn volume(name: &str, handle: &str) -> Value {
    let namespace = format!(
        "team-{}",
        name.len() + name.bytes().map(usize::from).sum::<usize>() % 100
    );
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": {
                "pv.kubernetes.io/provisioned-by": DRIVER,
                "volume.kubernetes.io/provisioner-deletion-secret-name": "",
                "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
            },
            "finalizers": [bound::FINALIZER, "kubernetes.io/pv-protection", FINALIZER],
        },
        "spec": {
            "capacity": { "storage": "10Gi" },
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "fast",
            "volumeMode": "Filesystem",
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace,
                "name": format!("data-{name}"), "resourceVersion": "123456",
                "uid": "6d9b1f1c-6f0e-4a63-9f9e-0d8a3c3c0001",
            },
            "csi": {
                "driver": DRIVER, "volumeHandle": handle, "fsType": "ext4",
                "volumeAttributes": {
                    "storage.kubernetes.io/csiProvisionerIdentity": "1700000000000-8081-bench.csi.example.com",
                    "type": "ssd",
                },
            },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [{
                "key": "topology.bench.csi.example.com/zone", "operator": "In", "values": ["zone-a"],
            }] }] } },
        },
    })
}

/// The CSINode that kubelet writes for a node with three drivers.
pub(crate) fn node(name: &str) -> Value {
    let driver = |driver: &str| {
        json!({
            "name": driver, "nodeID": format!("i-{name}"),
            "topologyKeys": ["topology.kubernetes.io/zone", format!("topology.{driver}/zone")],
            "allocatable": { "count": 25 },
        })
    };
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {
            "name": name,
            "annotations": { "storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder,kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume" },
        },
        "spec": { "drivers": [driver(DRIVER), driver("files.csi.example.com"), driver("secrets-store.csi.k8s.io")] },
    })
}

/// A VolumeAttachment as kube-controller-manager creates it.
pub(crate) fn attachment(name: &str, volume: &str, node: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": { "name": name },
        "spec": {
            "attacher": DRIVER, "nodeName": node,
            "source": { "persistentVolumeName": volume },
        },
    })
}

/// An [`attachment`] as the attacher leaves it; its status has to be written separately.
pub(crate) fn attached(name: &str, volume: &str, node: &str) -> Value {
    let mut object = attachment(name, volume, node);
    if let Some(metadata) = object.get_mut("metadata") {
        *metadata = json!({
            "name": name,
            "finalizers": [FINALIZER],
            "annotations": { "csi.alpha.kubernetes.io/node-id": format!("i-{node}") },
        });
    }
    object
}

/// Whether `status.attached` is true.
pub(crate) fn is_attached(attachment: &Value) -> bool {
    attachment.pointer("/status/attached") == Some(&Value::Bool(true))
}
