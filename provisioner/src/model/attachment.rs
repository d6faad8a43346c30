//! VolumeAttachment: which volumes must not be deleted yet.

use super::Text;

/// A `storage.k8s.io/v1` VolumeAttachment. Only those that name a PersistentVolume are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// `spec.source.persistentVolumeName`.
    pub volume: Text,
    /// `spec.nodeName`.
    pub node: Text,
}
