//! VolumeAttachment: the request to attach a volume to a node, and its status.

use std::sync::Arc;

use super::{List, Pairs, Text, VolumeSpec};

/// A `storage.k8s.io/v1` VolumeAttachment, as far as the attacher reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// `metadata.name`; VolumeAttachments are cluster-scoped.
    pub name: Text,
    /// `metadata.uid`; distinguishes an object from a later one of the same name. Names repeat as a
    /// rule: kube-controller-manager derives them from volume, driver and node.
    pub uid: Text,
    /// `metadata.resourceVersion`, 0 if it is not a number; tells which of two readings is newer.
    pub version: u64,
    /// Whether `metadata.deletionTimestamp` is set: the volume should be detached.
    pub deleting: bool,
    /// When the attach or detach was requested, in seconds since 1970; 0 if the time cannot be
    /// parsed.
    pub since: u32,
    /// `metadata.creationTimestamp`, in seconds since 1970; 0 if it cannot be parsed. For traces.
    pub created: u32,
    /// `metadata.finalizers`, in order.
    pub finalizers: List,
    /// Value of the annotation [`NODE_ID_ANNOTATION`](crate::keys::NODE_ID_ANNOTATION).
    pub node_id: Option<Text>,
    /// `spec.attacher`: name of the responsible driver.
    pub attacher: Text,
    /// `spec.nodeName`.
    pub node: Text,
    /// `spec.source.persistentVolumeName`.
    pub volume: Option<Text>,
    /// `spec.source.inlineVolumeSpec`, for in-tree volumes written inline in a pod.
    pub inline: Option<Arc<VolumeSpec>>,
    /// `status.attached`.
    pub attached: bool,
    /// `status.attachmentMetadata`: the publish context.
    pub metadata: Pairs,
    /// `status.attachError`.
    pub attach_error: Option<Arc<VolumeError>>,
    /// `status.detachError`.
    pub detach_error: Option<Arc<VolumeError>>,
}

/// `status.attachError` or `status.detachError`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeError {
    /// `message`, for people.
    pub message: Option<String>,
    /// `time`, RFC 3339 in whole seconds.
    pub time: Option<String>,
    /// `errorCode`: the gRPC code of the failed call, if the API server keeps it (Kubernetes 1.34
    /// and later).
    pub code: Option<i32>,
}

impl Attachment {
    /// Whether `finalizer` is among the object's finalizers.
    #[must_use]
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|held| &**held == finalizer)
    }
}
