//! VolumeAttachment: the wish that a volume be attached to a node, and what came of it.

use std::sync::Arc;

use super::{List, Pairs, Text, VolumeSpec};

/// What the attacher reads of a `storage.k8s.io/v1` VolumeAttachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// `metadata.name`; VolumeAttachments are cluster-scoped.
    pub name: Text,
    /// `metadata.uid`; tells an object from a later one of the same name, which is the rule here:
    /// kube-controller-manager derives the name from volume, driver and node.
    pub uid: Text,
    /// `metadata.resourceVersion`, 0 if it is no number; says which of two readings is newer.
    pub version: u64,
    /// Whether `metadata.deletionTimestamp` is set: the volume shall be detached.
    pub deleting: bool,
    /// Since when it is to be attached or detached, in seconds since 1970; 0 if that cannot be read.
    pub since: u32,
    /// `metadata.finalizers`, in order.
    pub finalizers: List,
    /// Value of the annotation [`NODE_ID_ANNOTATION`](crate::keys::NODE_ID_ANNOTATION).
    pub node_id: Option<Text>,
    /// `spec.attacher`: name of the driver that shall act.
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
    /// What happened, for people.
    pub message: Option<String>,
    /// When, RFC 3339 in whole seconds.
    pub time: Option<String>,
    /// gRPC code of the failed call, where the API server keeps it (Kubernetes 1.34 and later).
    pub code: Option<i32>,
}

impl Attachment {
    /// Whether `finalizer` is among the object's finalizers.
    #[must_use]
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|held| &**held == finalizer)
    }
}
