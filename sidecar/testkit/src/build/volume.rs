//! Volumes, claims, classes and attachments.

use serde_json::{Value, json};

use super::{Object, builder, object, push};

builder!(
    /// A `PersistentVolume`.
    Volume
);

/// A volume of 1 GiB without a source.
#[must_use]
pub fn volume(name: &str) -> Volume {
    let mut volume = object("v1", "PersistentVolume", name);
    volume["spec"] =
        json!({"capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Delete"});
    volume["status"] = json!({"phase": "Available"});
    Volume(volume)
}

impl Volume {
    /// Sets its source: this volume handle of this CSI driver.
    #[must_use]
    pub fn csi(mut self, driver: &str, handle: &str) -> Self {
        self.0["spec"]["csi"]["driver"] = driver.into();
        self.0["spec"]["csi"]["volumeHandle"] = handle.into();
        self
    }

    /// Sets its source: an NFS export.
    #[must_use]
    pub fn nfs(self, server: &str, path: &str) -> Self {
        self.with("/spec/nfs", json!({"server": server, "path": path}))
    }

    /// Adds an access mode, in full or as `RWO`, `ROX`, `RWX`, `RWOP`.
    #[must_use]
    pub fn mode(mut self, mode: &str) -> Self {
        push(&mut self.0["spec"]["accessModes"], access_mode(mode).into());
        self
    }

    /// Makes it a block volume.
    #[must_use]
    pub fn block(self) -> Self {
        self.with("/spec/volumeMode", "Block")
    }

    /// Sets the file system type of its CSI source.
    #[must_use]
    pub fn fs_type(self, fs_type: &str) -> Self {
        self.with("/spec/csi/fsType", fs_type)
    }

    /// Makes its CSI source read-only.
    #[must_use]
    pub fn read_only(self) -> Self {
        self.with("/spec/csi/readOnly", true)
    }

    /// Adds a mount option.
    #[must_use]
    pub fn mount_option(mut self, option: &str) -> Self {
        push(&mut self.0["spec"]["mountOptions"], option.into());
        self
    }

    /// Adds a volume attribute of its CSI source.
    #[must_use]
    pub fn attribute(mut self, key: &str, value: &str) -> Self {
        self.0["spec"]["csi"]["volumeAttributes"][key] = value.into();
        self
    }

    /// Sets the secret (`namespace/name`) for controller publish calls.
    #[must_use]
    pub fn publish_secret(self, secret: &str) -> Self {
        self.with("/spec/csi/controllerPublishSecretRef", reference(secret))
    }

    /// Binds it to a claim (`namespace/name`).
    #[must_use]
    pub fn bound_to(self, claim: &str) -> Self {
        let mut object = reference(claim);
        object["kind"] = "PersistentVolumeClaim".into();
        object["apiVersion"] = "v1".into();
        self.with("/spec/claimRef", object).phase("Bound")
    }

    /// Sets its storage class.
    #[must_use]
    pub fn class(self, name: &str) -> Self {
        self.with("/spec/storageClassName", name)
    }

    /// Sets its reclaim policy.
    #[must_use]
    pub fn reclaim(self, policy: &str) -> Self {
        self.with("/spec/persistentVolumeReclaimPolicy", policy)
    }

    /// Sets its phase.
    #[must_use]
    pub fn phase(self, phase: &str) -> Self {
        self.with("/status/phase", phase)
    }
}

builder!(
    /// A `PersistentVolumeClaim`.
    Claim
);

/// A pending claim (`namespace/name`) for 1 GiB.
#[must_use]
pub fn claim(name: &str) -> Claim {
    let mut claim = object("v1", "PersistentVolumeClaim", name);
    claim["spec"] = json!({"resources": {"requests": {"storage": "1Gi"}}});
    claim["status"] = json!({"phase": "Pending"});
    Claim(claim)
}

impl Claim {
    /// Adds an access mode, in full or short.
    #[must_use]
    pub fn mode(mut self, mode: &str) -> Self {
        push(&mut self.0["spec"]["accessModes"], access_mode(mode).into());
        self
    }

    /// Sets its storage class.
    #[must_use]
    pub fn class(self, name: &str) -> Self {
        self.with("/spec/storageClassName", name)
    }

    /// Sets the requested size.
    #[must_use]
    pub fn size(self, quantity: &str) -> Self {
        self.with("/spec/resources/requests/storage", quantity)
    }

    /// Binds it to a volume.
    #[must_use]
    pub fn bound_to(self, volume: &str) -> Self {
        self.with("/spec/volumeName", volume)
            .with("/status/phase", "Bound")
    }
}

builder!(
    /// A `StorageClass`.
    Class
);

/// A class with immediate binding.
#[must_use]
pub fn class(name: &str) -> Class {
    let class = object("storage.k8s.io/v1", "StorageClass", name);
    Class(class)
        .with("/reclaimPolicy", "Delete")
        .with("/volumeBindingMode", "Immediate")
}

impl Class {
    /// Sets the driver that provisions it.
    #[must_use]
    pub fn of(self, driver: &str) -> Self {
        self.with("/provisioner", driver)
    }

    /// Adds a parameter.
    #[must_use]
    pub fn parameter(mut self, key: &str, value: &str) -> Self {
        self.0["parameters"][key] = value.into();
        self
    }

    /// Sets late binding, when a pod is scheduled.
    #[must_use]
    pub fn waiting_for_consumer(self) -> Self {
        self.with("/volumeBindingMode", "WaitForFirstConsumer")
    }
}

builder!(
    /// A `VolumeAttachment`.
    Attachment
);

/// An attachment that is not attached yet.
#[must_use]
pub fn attachment(name: &str) -> Attachment {
    let mut attachment = object("storage.k8s.io/v1", "VolumeAttachment", name);
    attachment["spec"] = json!({"source": {}});
    attachment["status"] = json!({"attached": false});
    Attachment(attachment)
}

impl Attachment {
    /// Sets the driver that attaches it.
    #[must_use]
    pub fn by(self, driver: &str) -> Self {
        self.with("/spec/attacher", driver)
    }

    /// Sets the node that it attaches to.
    #[must_use]
    pub fn on(self, node: &str) -> Self {
        self.with("/spec/nodeName", node)
    }

    /// Sets the volume that it attaches.
    #[must_use]
    pub fn of(self, volume: &str) -> Self {
        self.with("/spec/source/persistentVolumeName", volume)
    }

    /// Sets the inline volume that it attaches: the spec of a `PersistentVolume`.
    #[must_use]
    pub fn inline(self, spec: impl Into<Value>) -> Self {
        self.with("/spec/source/inlineVolumeSpec", spec)
    }

    /// Marks it as attached.
    #[must_use]
    pub fn attached(self) -> Self {
        self.with("/status/attached", true)
    }
}

builder!(
    /// A `CSIDriver`.
    Driver
);

/// A `CSIDriver` that requires attaching.
#[must_use]
pub fn csidriver(name: &str) -> Driver {
    let driver = object("storage.k8s.io/v1", "CSIDriver", name);
    Driver(driver).with("/spec/attachRequired", true)
}

builder!(
    /// A `Secret`.
    Secret
);

/// An empty secret (`namespace/name`).
#[must_use]
pub fn secret(name: &str) -> Secret {
    Secret(object("v1", "Secret", name))
}

impl Secret {
    /// Adds an entry; `base64` is the value in the API's encoding.
    #[must_use]
    pub fn entry(mut self, key: &str, base64: &str) -> Self {
        self.0["data"][key] = base64.into();
        self
    }
}

fn reference(name: &str) -> Value {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    json!({"namespace": namespace, "name": name})
}

fn access_mode(mode: &str) -> &str {
    match mode {
        "RWO" => "ReadWriteOnce",
        "ROX" => "ReadOnlyMany",
        "RWX" => "ReadWriteMany",
        "RWOP" => "ReadWriteOncePod",
        full => full,
    }
}
