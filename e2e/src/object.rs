//! API objects that scenarios create.

use serde_json::{Value, json};

/// A CSIDriver that allows both life cycles and wants to know the pod.
pub fn csi_driver(name: &str, attach_required: bool) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": { "name": name },
        "spec": {
            "attachRequired": attach_required,
            "podInfoOnMount": true,
            "fsGroupPolicy": "File",
            "volumeLifecycleModes": ["Persistent", "Ephemeral"],
        },
    })
}

/// A pod on `node` (through the scheduler) with one volume mounted at `/data`.
pub fn pod(name: &str, node: &str, volume: &Value) -> Value {
    let mut volume = volume.clone();
    if let Some(volume) = volume.as_object_mut() {
        volume.insert("name".to_owned(), json!("data"));
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name },
        "spec": {
            "nodeSelector": { "kubernetes.io/hostname": node },
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "main",
                "image": "registry.k8s.io/pause:3.10",
                "volumeMounts": [{ "name": "data", "mountPath": "/data" }],
            }],
            "volumes": [volume],
        },
    })
}

/// The source of an inline ephemeral volume.
pub fn inline_volume(driver: &str) -> Value {
    json!({ "csi": { "driver": driver, "volumeAttributes": { "purpose": "scratch" } } })
}

/// A node that is only an object; no kubelet stands behind it.
pub fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        // Nothing can run there, and no scheduler shall try.
        "spec": { "unschedulable": true },
    })
}

/// What a kubelet says of a driver on its node.
pub fn csi_node(name: &str, driver: &str, node_id: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": { "name": name },
        "spec": { "drivers": [{ "name": driver, "nodeID": node_id, "topologyKeys": [] }] },
    })
}

/// A volume made by an administrator, kept when its claim goes.
pub fn persistent_volume(name: &str, driver: &str, handle: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": name },
        "spec": {
            "capacity": { "storage": "1Mi" },
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "csi": { "driver": driver, "volumeHandle": handle },
        },
    })
}

/// A claim for one volume that is named.
pub fn claim_of(name: &str, volume: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Mi" } },
            "storageClassName": "",
            "volumeName": volume,
        },
    })
}

/// The source of a pod's volume that a claim stands for.
pub fn claimed_volume(claim: &str) -> Value {
    json!({ "persistentVolumeClaim": { "claimName": claim } })
}

/// What kube-controller-manager creates to have a volume attached.
pub fn volume_attachment(name: &str, driver: &str, volume: &str, node: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": { "name": name },
        "spec": {
            "attacher": driver,
            "nodeName": node,
            "source": { "persistentVolumeName": volume },
        },
    })
}
