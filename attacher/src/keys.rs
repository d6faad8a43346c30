//! Strings of the Kubernetes API that the attacher shares with other programs.
//!
//! One place, so that each is spelled once and its origin is written down.

/// Annotation on a VolumeAttachment: the node's id as the driver knows it, saved before the first
/// publish call so that a volume can be detached after the CSINode object is gone.
/// Origin: external-attacher since v0.3; the name kept its alpha prefix.
pub const NODE_ID_ANNOTATION: &str = "csi.alpha.kubernetes.io/node-id";

/// Annotation on a PersistentVolume with an in-tree source: the CSI driver that serves it.
/// Origin: kube-controller-manager, in-tree to CSI migration.
pub const MIGRATED_TO_ANNOTATION: &str = "pv.kubernetes.io/migrated-to";

/// Longest message the API server accepts in `attachError` and `detachError`, in bytes.
/// Origin: kubernetes/pkg/apis/storage/validation, `maxVolumeErrorMessageSize`.
pub const MAX_ERROR_MESSAGE: usize = 1024;
