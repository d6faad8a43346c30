//! API objects that scenarios create.

use serde_json::{Value, json};

/// A CSIDriver that allows both lifecycles and requests pod information.
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

/// Like [`pod`], on any node.
pub fn free_pod(name: &str, volume: &Value) -> Value {
    with(
        pod(name, "", volume),
        &json!({ "spec": { "nodeSelector": null } }),
    )
}

/// An affinity that prefers `node`; see [`with`].
pub fn preferring(node: &str) -> Value {
    json!({ "spec": { "affinity": { "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "preference": { "matchExpressions": [
                { "key": "kubernetes.io/hostname", "operator": "In", "values": [node] },
            ]},
        }],
    }}}})
}

/// An object with some of its fields changed, as a merge patch would.
pub fn with(object: Value, patch: &Value) -> Value {
    let (Value::Object(mut fields), Value::Object(changes)) = (object, patch) else {
        return patch.clone();
    };
    for (key, change) in changes {
        let old = fields.remove(key);
        if !change.is_null() {
            let new = with(old.unwrap_or_else(|| json!({})), change);
            fields.insert(key.clone(), new);
        }
    }
    Value::Object(fields)
}

/// The source of an inline ephemeral volume.
pub fn inline_volume(driver: &str) -> Value {
    json!({ "csi": { "driver": driver, "volumeAttributes": { "purpose": "scratch" } } })
}

/// A Node object without a kubelet.
pub fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        // Nothing can run there, so the scheduler must not try.
        "spec": { "unschedulable": true },
    })
}

/// A kubelet's entry for a driver on its node.
pub fn csi_node(name: &str, driver: &str, node_id: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": { "name": name },
        "spec": { "drivers": [{ "name": driver, "nodeID": node_id, "topologyKeys": [] }] },
    })
}

/// A manually created volume, retained after its claim's deletion.
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

/// A claim for one named volume.
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

/// The source of a pod's volume: a claim.
pub fn claimed_volume(claim: &str) -> Value {
    json!({ "persistentVolumeClaim": { "claimName": claim } })
}

/// The object that kube-controller-manager creates to attach a volume.
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

/// A class of dynamically provisioned volumes.
pub fn storage_class(name: &str, driver: &str, binding: Binding) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": { "name": name },
        "provisioner": driver,
        "reclaimPolicy": "Delete",
        "allowVolumeExpansion": true,
        "volumeBindingMode": match binding {
            Binding::Immediate => "Immediate",
            Binding::WaitForFirstConsumer => "WaitForFirstConsumer",
        },
    })
}

/// A class of volume attributes.
pub fn attributes_class(name: &str, driver: &str, parameters: &Value) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttributesClass",
        "metadata": { "name": name },
        "driverName": driver,
        "parameters": parameters,
    })
}

/// A Secret with one entry, `password`.
pub fn secret(name: &str, password: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": name },
        "stringData": { "password": password },
    })
}

/// When a claim's volume is provisioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// At once.
    Immediate,
    /// After the scheduler has selected a node for the first pod.
    WaitForFirstConsumer,
}

/// A claim for a new volume of a class.
pub fn claim(name: &str, class: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": size } },
            "storageClassName": class,
        },
    })
}

/// A claim with the claim or VolumeSnapshot `source` as data source.
pub fn claim_from(name: &str, class: &str, size: &str, kind: &str, source: &str) -> Value {
    let group = match kind {
        "VolumeSnapshot" => "snapshot.storage.k8s.io",
        _ => "",
    };
    let mut claim = claim(name, class, size);
    if let Some(spec) = claim.get_mut("spec").and_then(Value::as_object_mut) {
        let source = json!({ "apiGroup": group, "kind": kind, "name": source });
        spec.insert("dataSource".to_owned(), source);
    }
    claim
}

/// A VolumeSnapshotClass. `policy` is its deletion policy: `Delete` or `Retain`.
pub fn snapshot_class(name: &str, driver: &str, policy: &str) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotClass",
        "metadata": { "name": name },
        "driver": driver,
        "deletionPolicy": policy,
    })
}

/// A VolumeSnapshot of a claim in its namespace.
pub fn snapshot_of(name: &str, class: &str, claim: &str) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "volumeSnapshotClassName": class,
            "source": { "persistentVolumeClaimName": claim },
        },
    })
}

/// The objects of an existing snapshot, as snapshot-controller and csi-snapshotter leave them: the
/// content, and the bound VolumeSnapshot in the namespace `default`. The status is a subresource and has
/// to be written separately.
pub fn snapshot(name: &str, driver: &str, handle: &str, bytes: u64) -> Snapshot {
    snapshot_in("default", name, driver, handle, bytes)
}

/// Like [`snapshot`], in another namespace; the content's cluster-wide name is derived from `name`.
pub fn snapshot_in(
    namespace: &str,
    name: &str,
    driver: &str,
    handle: &str,
    bytes: u64,
) -> Snapshot {
    let version = "snapshot.storage.k8s.io/v1";
    let content = format!("content-of-{name}");
    Snapshot {
        content_status: json!({ "status": {
            "readyToUse": true, "snapshotHandle": handle, "restoreSize": bytes,
        }}),
        status: json!({ "status": {
            "readyToUse": true, "boundVolumeSnapshotContentName": content,
            "restoreSize": bytes.to_string(),
        }}),
        object: json!({
            "apiVersion": version, "kind": "VolumeSnapshot",
            "metadata": { "name": name, "namespace": namespace },
            "spec": { "source": { "volumeSnapshotContentName": content } },
        }),
        content: json!({
            "apiVersion": version, "kind": "VolumeSnapshotContent",
            "metadata": { "name": content },
            "spec": {
                "deletionPolicy": "Retain", "driver": driver,
                "source": { "snapshotHandle": handle },
                "volumeSnapshotRef": { "name": name, "namespace": namespace },
            },
        }),
    }
}

/// The objects of one snapshot, and the merge patches of their statuses.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The VolumeSnapshotContent.
    pub content: Value,
    /// The VolumeSnapshot.
    pub object: Value,
    /// Status of the content.
    pub content_status: Value,
    /// Status of the snapshot.
    pub status: Value,
}

/// A StatefulSet whose pods each have a claim of a class, mounted at `/data`.
pub fn stateful_set(name: &str, replicas: u32, class: &str, size: &str) -> Value {
    let mut template = claim("data", class, size);
    if let Some(template) = template.as_object_mut() {
        template.remove("apiVersion");
        template.remove("kind");
    }
    let mut pod = pod(name, "", &json!({}));
    let spec = pod.get_mut("spec").map(Value::take);
    let mut spec = spec.unwrap_or_default();
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("nodeSelector");
        spec.remove("volumes");
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "serviceName": name,
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } }, "spec": spec },
            "volumeClaimTemplates": [template],
        },
    })
}
