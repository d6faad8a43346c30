//! What VolumeAttachments that are gone have left published, and when it is unpublished.
//!
//! There is no object left to decide on. An object should not go before its volume was unpublished:
//! our finalizer holds it. But anybody may take a finalizer off.
//!
//! Nothing is unpublished that somebody may use: an attachment that was reported attached, held our
//! finalizer and was not being deleted when it was last seen did not go by the API's rules. Either
//! its deletion was missed or the API server's storage was set back, and nobody can tell which.

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

/// What a VolumeAttachment that is gone has left published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// Name of the VolumeAttachment.
    pub attachment: Text,
    /// The PersistentVolume it named, unless its volume was written inline.
    pub volume: Option<Text>,
    /// `spec.nodeName`.
    pub node: Text,
    /// What to unpublish.
    pub target: Target,
    /// The Secret that goes with the call.
    pub secret: Option<SecretRef>,
    /// How the call is counted.
    pub migrated: Migrated,
}

/// What is to be done about an orphan now. The most careful counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Nobody asks for it: `ControllerUnpublishVolume`.
    #[default]
    Unpublish,
    /// Another VolumeAttachment asks for volume and node and does not hold them: it comes to, or
    /// goes.
    Wait,
    /// Another VolumeAttachment holds volume and node: its own detach does this.
    Settled,
}

/// Whether the driver may hold something for `attachment`, for all that the object shows.
fn may_be_published(attachment: &Attachment, driver: &Driver) -> bool {
    let begun = attachment.attached || attachment.node_id.is_some();
    // Without the finalizer what is being deleted was detached, as always.
    attachment.has_finalizer(&driver.finalizer) || (begun && !attachment.deleting)
}

/// Whether the end of `attachment`, last seen like this, leaves something published that nobody can
/// be using.
#[must_use]
pub fn leaves(attachment: &Attachment, driver: &Driver) -> bool {
    driver.abilities.publish
        && *attachment.attacher == *driver.name
        && may_be_published(attachment, driver)
        && !is_unexplained(attachment, driver)
}

/// Whether `attachment`, last seen like this, can only be gone because something was missed.
#[must_use]
pub fn is_unexplained(attachment: &Attachment, driver: &Driver) -> bool {
    let held = attachment.has_finalizer(&driver.finalizer);
    held && attachment.attached && !attachment.deleting
}

impl Orphan {
    /// What the end of the view's attachment leaves.
    ///
    /// # Errors
    /// Says why it cannot be known.
    pub fn of(view: &View<'_>) -> Result<Self, Failure> {
        let source = view.csi(view.spec()?)?;
        let attachment = view.attachment;
        // Saved with the call that may have had effect; the CSINode may be of a later node.
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

    /// What to do while the view's attachment exists.
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

    /// Whether the view's attachment is about the same volume and node.
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

/// The script. There is no object, so nothing is recorded but in the log, and a crash forgets it.
pub(super) fn unpublish(log: &Log, orphan: &Orphan, informers: Informed<'_>) -> Flow<End> {
    if log.called::<Unpublish>().is_some() {
        return Ok(End::Done);
    }
    // Before the Secret, and again right before the call: who asks may have changed.
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
