//! Strings of the Kubernetes API that the resizer shares with other programs.
//!
//! One place, so that each is spelled once, with its origin.

/// Annotation on a PersistentVolume: the claim's capacity before an expansion that the node has not
/// finished. Origin: external-resizer since 1.2; a claim that is restored from the volume reads it.
pub const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

/// Annotation on a PersistentVolumeClaim, `"true"`: kubelet need not expand the file system.
/// Origin: external-resizer since 2.0, read by kubelet.
pub const NODE_EXPANSION_NOT_REQUIRED: &str = "volume.kubernetes.io/node-expansion-not-required";

/// Annotation on a PersistentVolumeClaim: the CSI driver that expands a volume with an in-tree
/// source. Origin: kube-controller-manager, in-tree to CSI migration.
pub const STORAGE_RESIZER: &str = "volume.kubernetes.io/storage-resizer";

/// Annotation on a PersistentVolumeClaim: the driver that provisioned its volume.
/// Origin: kube-controller-manager.
pub const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";

/// Annotation on a PersistentVolume: name of the Secret for ControllerModifyVolume.
/// Origin: external-provisioner, from the class's parameters.
pub const MODIFY_SECRET_NAME: &str = "volume.kubernetes.io/controller-modify-secret-name";

/// Annotation on a PersistentVolume: namespace of the Secret for ControllerModifyVolume.
/// Origin: external-provisioner, from the class's parameters.
pub const MODIFY_SECRET_NAMESPACE: &str = "volume.kubernetes.io/controller-modify-secret-namespace";

/// Parameter of ControllerModifyVolume with `--extra-modify-metadata`: the claim's name.
pub const CLAIM_NAME_PARAMETER: &str = "csi.storage.k8s.io/pvc/name";

/// Parameter of ControllerModifyVolume with `--extra-modify-metadata`: the claim's namespace.
pub const CLAIM_NAMESPACE_PARAMETER: &str = "csi.storage.k8s.io/pvc/namespace";

/// Parameter of ControllerModifyVolume with `--extra-modify-metadata`: the PersistentVolume's name.
pub const VOLUME_NAME_PARAMETER: &str = "csi.storage.k8s.io/pv/name";

/// Condition of a claim: an expansion is under way. Origin: `core/v1`, like all conditions here.
pub const RESIZING: &str = "Resizing";

/// Condition of a claim: the expansion of the file system on a node is pending.
pub const FILE_SYSTEM_RESIZE_PENDING: &str = "FileSystemResizePending";

/// Condition of a claim: the driver refused to expand the volume.
pub const CONTROLLER_RESIZE_ERROR: &str = "ControllerResizeError";

/// Condition of a claim: kubelet could not expand the volume. The resizer never sets it.
pub const NODE_RESIZE_ERROR: &str = "NodeResizeError";

/// Conditions that an expansion sets and removes; all others belong to other programs.
pub const RESIZE_CONDITIONS: [&str; 4] = [
    RESIZING,
    FILE_SYSTEM_RESIZE_PENDING,
    CONTROLLER_RESIZE_ERROR,
    NODE_RESIZE_ERROR,
];

/// Condition of a claim: its volume is being modified.
pub const MODIFYING_VOLUME: &str = "ModifyingVolume";

/// Condition of a claim: the driver refused to modify the volume.
pub const MODIFY_VOLUME_ERROR: &str = "ModifyVolumeError";
