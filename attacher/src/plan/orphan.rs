//! Orphans: volumes that deleted VolumeAttachments left published, and when to unpublish them.
//!
//! Normally an object cannot disappear before its volume was unpublished, because the attacher's
//! finalizer holds it. But anybody may remove a finalizer, and then no object remains to decide on.
//!
//! The attacher never unpublishes a volume that may be in use. An attachment that was last seen
//! attached, with the finalizer and without deletion timestamp, cannot disappear by the API's
//! rules: either the watch missed its deletion or the API server's storage was restored from a
//! backup, and the two cannot be told apart.

use sidecar::controller::script;
use sidecar::csi::Migrated;

use super::Driver;
use super::attempt::{End, Flow, Log, secret};
use super::flight::Target;
use super::outcome::Failure;
use super::reactor::Informed;
use super::request::{self, Unpublish};
use super::view::View;
use crate::model::{Attachment, SecretRef, Text};

/// A volume that a deleted VolumeAttachment left published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// Name of the VolumeAttachment.
    pub attachment: Text,
    /// The PersistentVolume it referenced; `None` for an inline specification.
    pub volume: Option<Text>,
    /// `spec.nodeName`.
    pub node: Text,
    /// Volume and node to unpublish.
    pub target: Target,
    /// The Secret for the call.
    pub secret: Option<SecretRef>,
    /// The `migrated` label for the call's metrics.
    pub migrated: Migrated,
}

/// What to do about an orphan now. If attachments disagree, the greatest verdict wins: it is the
/// most careful.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// No attachment requests it: call `ControllerUnpublishVolume`.
    #[default]
    Unpublish,
    /// Another VolumeAttachment requests volume and node but has no finalizer yet: wait until it
    /// gets one or is deleted.
    Wait,
    /// Another VolumeAttachment has the finalizer for volume and node: its own detach unpublishes.
    Settled,
}

/// Whether the driver may have published something for `attachment`, judging by the object alone.
fn may_be_published(attachment: &Attachment, driver: &Driver) -> bool {
    let begun = attachment.attached || attachment.node_id.is_some();
    // Without the finalizer, an object that is being deleted was detached before.
    attachment.has_finalizer(&driver.finalizer) || (begun && !attachment.deleting)
}

/// Whether the deleted `attachment`, as last seen, left something published that nobody can be
/// using.
#[must_use]
pub fn leaves(attachment: &Attachment, driver: &Driver) -> bool {
    driver.abilities.publish
        && *attachment.attacher == *driver.name
        && may_be_published(attachment, driver)
        && !is_unexplained(attachment, driver)
}

/// Whether the disappearance of `attachment`, as last seen, can only mean that the watch missed
/// something.
#[must_use]
pub fn is_unexplained(attachment: &Attachment, driver: &Driver) -> bool {
    let held = attachment.has_finalizer(&driver.finalizer);
    held && attachment.attached && !attachment.deleting
}

impl Orphan {
    /// The orphan that the view's attachment leaves.
    ///
    /// # Errors
    /// Says why volume or node cannot be determined.
    pub fn of(view: &View<'_>) -> Result<Self, Failure> {
        let source = view.csi(view.spec()?)?;
        let attachment = view.attachment;
        // The id saved before the publish call; the CSINode may describe a new node of that name.
        let node_id = match attachment.node_id.as_deref() {
            Some(saved) => saved,
            None => view.node_id()?,
        };
        Ok(Self {
            attachment: attachment.name.clone(),
            volume: attachment.volume.clone(),
            node: attachment.node.clone(),
            target: Target {
                volume: source.handle.clone(),
                node: node_id.into(),
            },
            secret: source.publish_secret.as_deref().cloned(),
            migrated: view.migrated(),
        })
    }

    /// The verdict while the view's attachment exists.
    #[must_use]
    pub fn beside(&self, view: &View<'_>) -> Verdict {
        if !self.is_asked_for(view) {
            return Verdict::Unpublish;
        }
        let attachment = view.attachment;
        match (
            attachment.has_finalizer(&view.driver.finalizer),
            attachment.deleting,
        ) {
            (true, _) => Verdict::Settled,
            (false, true) => Verdict::Unpublish,
            (false, false) => Verdict::Wait,
        }
    }

    /// Whether the view's attachment requests the same volume and node.
    fn is_asked_for(&self, view: &View<'_>) -> bool {
        let attachment = view.attachment;
        if *attachment.attacher != *view.driver.name {
            return false;
        }
        let named = attachment.volume.is_some() && attachment.volume == self.volume;
        if named && attachment.node == self.node {
            return true;
        }
        let source = view.spec().and_then(|spec| view.csi(spec));
        let same_node = view
            .known_node_id()
            .is_ok_and(|id| *id == *self.target.node);
        (same_node || attachment.node == self.node)
            && source.is_ok_and(|source| source.handle == self.target.volume)
    }
}

/// The script. Without an object, the result is only logged, and a crash discards the orphan.
pub(super) fn unpublish(log: &Log, orphan: &Orphan, informers: Informed<'_>) -> Flow<End> {
    if log.called::<Unpublish>().is_some() {
        return Ok(End::Done);
    }
    // Evaluated before reading the Secret and again right before the call, since attachments may
    // have changed.
    let all = informers.attachments();
    let verdicts = all
        .iter()
        .map(|attachment| informers.with_view(attachment, |view| orphan.beside(view)));
    match verdicts.max().unwrap_or_default() {
        Verdict::Settled => return Ok(End::Done),
        Verdict::Wait => return Ok(End::Waits),
        Verdict::Unpublish => {}
    }
    let secrets = secret(log, orphan.secret.as_ref())?;
    let Target { volume, node } = &orphan.target;
    script::call(request::unpublish(volume, node, secrets, orphan.migrated))
}

#[cfg(test)]
mod tests;
