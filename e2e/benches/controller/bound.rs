//! Claims and the volumes that a provisioner made for them, as in a cluster in use.

use std::collections::HashMap;

use anyhow::Result;
use serde_json::{Value, json};

use crate::load::Load;
use crate::memory::Limits;
use crate::world::DRIVER;

pub(crate) const VOLUMES: &str = "/api/v1/persistentvolumes";
pub(crate) const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// Name of the StorageClass.
pub(crate) const CLASS: &str = "fast";

/// The provisioner's finalizer on volumes.
pub(crate) const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// Number of drivers that share a large cluster's volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drivers {
    One,
    Five,
}

impl Drivers {
    /// The object of this number, made for the measured driver: with five drivers, all but every
    /// fifth go to another one.
    pub(crate) fn share(self, index: usize, object: Value) -> Value {
        let other = match self {
            Self::One => 0,
            Self::Five => index % 5,
        };
        if other == 0 {
            return object;
        }
        let text = object.to_string();
        let text = text.replace(
            "bench.csi.example.com",
            &format!("other-{other}.csi.example.com"),
        );
        // The driver's name as finalizers spell it.
        let text = text.replace(
            "bench-csi-example-com",
            &format!("other-{other}-csi-example-com"),
        );
        serde_json::from_str(&text).unwrap_or(object)
    }

    /// The limits for one driver's volumes, or for a fifth of them beside four other drivers'.
    pub(crate) fn limits(self, one: Limits) -> Limits {
        match self {
            Self::One => one,
            Self::Five => Limits {
                resident_mb: 22.0,
                ..one
            },
        }
    }

    /// The words for it in the figures.
    pub(crate) fn say(self) -> &'static str {
        match self {
            Self::One => "",
            Self::Five => " of five drivers",
        }
    }
}

/// A claim as its user writes it.
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

/// A bound claim.
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

/// Name of the claim and of its volume.
pub(crate) fn name(index: usize) -> String {
    format!("pvc-{index:08x}-6f0e-4a63-9f9e-0d8a3c3c0001")
}

/// Creates claims of 1Mi that are bound to volumes with these handles.
pub(crate) fn create_bound(load: &Load, handles: &[String], drivers: Drivers) -> Result<()> {
    load.create(
        CLAIMS,
        (0..handles.len())
            .map(|index| drivers.share(index, bound_claim(&name(index), &name(index)))),
    )?;
    // A volume names the UID of its claim, which the API server chose.
    let mut uids = uids(load, CLAIMS)?;
    let volumes = handles.iter().enumerate().map(|(index, handle)| {
        let name = name(index);
        let uid = uids.remove(&name).unwrap_or_default();
        drivers.share(index, volume(&name, handle, &name, &uid))
    });
    load.create(VOLUMES, volumes)?;
    let bound = json!({ "status": {
        "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Mi" },
    } });
    let path = |index| format!("{CLAIMS}/{}/status", name(index));
    load.merge((0..handles.len()).map(|index| (path(index), bound.clone())))?;
    Ok(())
}

/// UIDs of the objects of a collection, by name.
pub(crate) fn uids(load: &Load, collection: &str) -> Result<HashMap<String, String>> {
    let list = load.get(collection)?;
    let items = list.pointer("/items").and_then(Value::as_array);
    let text = |claim: &Value, field| Some(claim.pointer(field)?.as_str()?.to_owned());
    let named = |claim| {
        Some((
            text(claim, "/metadata/name")?,
            text(claim, "/metadata/uid")?,
        ))
    };
    Ok(items.into_iter().flatten().filter_map(named).collect())
}
