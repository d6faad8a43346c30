//! The progress of VolumeAttachments, for service levels.
//!
//! Decisions do not use it; the cache computes it from the objects.

use sidecar::lifecycle::{Id, Look, Progress, Since, Stage, Step};

/// The stages that csi-attacher measures.
pub const STAGES: &[Stage] = &[Stage::Attached, Stage::Detached];

/// The fields of a VolumeAttachment that its stages depend on.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttachmentSeen<'a> {
    /// `metadata.uid`
    pub uid: &'a str,
    /// `metadata.creationTimestamp`, in seconds since 1970; 0 if it cannot be parsed.
    pub created: u32,
    /// `metadata.deletionTimestamp`, in seconds since 1970, if the object is being deleted.
    pub deleted: Option<u32>,
    /// Whether the object carries this attacher's finalizer; only evaluated while it is being
    /// deleted.
    pub held: bool,
    /// `status.attached`
    pub attached: bool,
}

/// The progress of a VolumeAttachment of this driver.
#[must_use]
pub fn of_attachment(attachment: &AttachmentSeen<'_>, look: Look) -> Vec<Step<'static>> {
    let open = |second| Progress::open(Since::At(second));
    let attached = match (look, attachment.deleted) {
        (Look::Gone, _) | (_, Some(_)) => Progress::Dropped,
        (_, None) if attachment.attached => Progress::DONE,
        (Look::First, None) => open(attachment.created),
        // A reattached attachment was created long ago, so its duration would be wrong.
        (Look::Again, None) => return Vec::new(),
    };
    let detached = match (look, attachment.deleted) {
        (Look::Gone, _) => Progress::DONE,
        (_, Some(second)) if attachment.held => open(second),
        (_, Some(_)) => Progress::DONE,
        (_, None) => Progress::Dropped,
    };
    let steps = [(Stage::Attached, attached), (Stage::Detached, detached)];
    let object = Id::of(attachment.uid);
    let steps = steps.map(|(stage, progress)| Step::new(stage, object, progress));
    steps.to_vec()
}
