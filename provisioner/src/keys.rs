//! Strings of the Kubernetes API that the provisioner shares with other programs.
//!
//! One place, so that each is spelled once and its origin is written down.

/// Annotation on a claim: the provisioner that has to provision it.
/// Origin: kube-controller-manager, PersistentVolume controller.
pub const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";

/// The same before Kubernetes 1.23; counts only where the newer one is absent.
pub const BETA_STORAGE_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";

/// Annotation on claims and volumes of an in-tree plugin: the CSI driver that serves them.
/// Origin: kube-controller-manager, in-tree to CSI migration.
pub const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";

/// Annotation on a claim: the node its first pod was scheduled to. Origin: kube-scheduler.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The same before Kubernetes 1.11; counts only where the newer one is absent.
pub const ALPHA_SELECTED_NODE: &str = "volume.alpha.kubernetes.io/selected-node";

/// Annotation on claims and volumes: the class; takes precedence over the field.
pub const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Annotation on a volume: the provisioner of its class.
/// Origin: sig-storage-lib-external-provisioner.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// Finalizer on volumes: the volume in the storage system exists.
/// Origin: sig-storage-lib-external-provisioner.
pub const VOLUME_FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// Finalizer on a claim that is being cloned. Origin: external-provisioner.
pub const CLONE_FINALIZER: &str = "provisioner.storage.kubernetes.io/cloning-protection";

/// Finalizer on a VolumeSnapshot that is being restored. Origin: external-provisioner.
pub const SNAPSHOT_FINALIZER: &str =
    "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection";

/// Annotations on a volume: Secret for DeleteVolume. Origin: external-provisioner.
pub const DELETION_SECRET_NAME: &str = "volume.kubernetes.io/provisioner-deletion-secret-name";
/// See [`DELETION_SECRET_NAME`].
pub const DELETION_SECRET_NAMESPACE: &str =
    "volume.kubernetes.io/provisioner-deletion-secret-namespace";

/// Annotations on a volume: Secret for ControllerModifyVolume. Origin: external-provisioner.
pub const MODIFY_SECRET_NAME: &str = "volume.kubernetes.io/controller-modify-secret-name";
/// See [`MODIFY_SECRET_NAME`].
pub const MODIFY_SECRET_NAMESPACE: &str = "volume.kubernetes.io/controller-modify-secret-namespace";

/// Annotation on a VolumeSnapshotContent: allows a claim with another volume mode.
/// Origin: external-snapshotter.
pub const ALLOW_MODE_CHANGE: &str = "snapshot.storage.kubernetes.io/allow-volume-mode-change";

/// Key in a volume's attributes: the process that created it. Origin: external-provisioner.
pub const IDENTITY_ATTRIBUTE: &str = "storage.kubernetes.io/csiProvisionerIdentity";

/// Prefix of parameters that are for the sidecars, not for the driver.
pub const PARAMETER_PREFIX: &str = "csi.storage.k8s.io/";

/// API group of snapshots.
pub const SNAPSHOT_GROUP: &str = "snapshot.storage.k8s.io";

/// Label on a CSIStorageCapacity: the name of its driver. Origin: external-provisioner.
pub const CAPACITY_DRIVER: &str = "csi.storage.k8s.io/drivername";

/// Label on a CSIStorageCapacity: the process that keeps it up to date. Origin: external-provisioner.
pub const CAPACITY_MANAGED_BY: &str = "csi.storage.k8s.io/managed-by";
