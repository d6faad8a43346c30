//! The next step for a VolumeAttachment, for drivers that publish volumes.
//!
//! The order of writes and calls below is what makes a crash at any point harmless, and the crash
//! simulation runs exactly this function.
//!
//! Attach: volume's finalizer, validation, attachment's finalizer and node id, publish call,
//! status. Detach: unpublish call, attachment's finalizer, status. The attachment's finalizer is
//! there before the first publish call can reach the driver, and goes only after an unpublish call
//! succeeded; the node id is saved with it, because the CSINode may be gone by then.

use std::collections::BTreeMap;

use csi_proto::csi::{ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest};
use serde_json::Value;
use sidecar::csi::Migrated;

use super::outcome::{ApiError, Direction, Failure, RpcError};
use super::request::{self, Secrets};
use super::view::{From, View};
use super::{capability, status, volume};
use crate::model::{Attachment, CsiSource, SecretRef, Text, VolumeSpec};

/// Which reading of the attachment an attempt goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// The one it has: the cache knows nothing newer.
    Keep,
    /// The cache's.
    Take,
    /// Neither: another object has taken the name.
    Replaced,
    /// Neither: the object is gone.
    Gone,
}

/// One attempt to bring a VolumeAttachment to its goal: what was learnt and done so far that the
/// API objects do not show. A crash loses it, and nothing with it.
pub struct Attempt {
    uid: Text,
    direction: Direction,
    forced: bool,
    secrets: LoadedSecret,
    reached: Reached,
}

/// The Secret of the current attempt; it is read anew in each.
enum LoadedSecret {
    NotYet,
    Loaded(Secrets),
    NotText,
}

/// The furthest point of the attempt.
enum Reached {
    Start,
    Protected,
    Prepared,
    Published(BTreeMap<String, String>),
    Unpublished,
    Released,
    Recorded,
}

/// The one next thing to do, complete in every detail.
pub enum Step {
    /// The goal is reached.
    Done,
    /// The goal changed during the attempt: start a new one at once.
    Again,
    /// JSON patch of the PersistentVolume: adds the finalizer.
    Protect(Text, Value),
    /// GET of a Secret.
    LoadSecret(SecretRef),
    /// Merge patch of the attachment: finalizer and node id.
    Prepare(Value),
    /// `ControllerPublishVolume`.
    Publish(Box<ControllerPublishVolumeRequest>, Migrated),
    /// Merge patch of the status.
    MarkAttached(Value),
    /// `ControllerUnpublishVolume`.
    Unpublish(Box<ControllerUnpublishVolumeRequest>, Migrated),
    /// Merge patch of the attachment: removes the finalizer.
    Release(Value),
    /// Merge patch of the status.
    MarkDetached(Value),
    /// This attempt cannot go on.
    Fail(Failure),
}

/// What came of a step.
pub enum Answer {
    /// The patch was applied; the view shows its result from now on.
    Written,
    /// The API server refused, or did not answer.
    Refused(ApiError),
    /// The Secret.
    Secret(Secrets),
    /// The Secret has a value that is not UTF-8.
    SecretNotText,
    /// The volume is on the node; carries the publish context.
    Published(BTreeMap<String, String>),
    /// The volume is off the node.
    Unpublished,
    /// The call failed.
    Failed(RpcError),
    /// There was no call, because the driver is away.
    Unreachable(RpcError),
}

impl Attempt {
    /// A new attempt on `attachment`. `forced`: the driver's list contradicts the status.
    #[must_use]
    pub fn new(attachment: &Attachment, forced: bool) -> Self {
        Self {
            uid: attachment.uid.clone(),
            direction: Direction::of(attachment),
            forced,
            secrets: LoadedSecret::NotYet,
            reached: Reached::Start,
        }
    }

    /// Whether it is made whatever the status says.
    #[must_use]
    pub fn forced(&self) -> bool {
        self.forced
    }

    /// Which way this attempt goes.
    #[must_use]
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Which reading to go on with: `current`, read or written last by this attempt, or `cached`.
    ///
    /// The cache may be behind what this attempt has written, and the answer to a patch may be
    /// another object than the one the attempt is about, since patches go by name.
    #[must_use]
    pub fn refresh(&self, current: &Attachment, cached: Option<&Attachment>) -> Refresh {
        if current.uid != self.uid {
            return Refresh::Replaced;
        }
        match cached {
            // What is still to be written after a detach is tried all the same.
            None if self.direction == Direction::Detach => Refresh::Keep,
            None => Refresh::Gone,
            Some(cached) if cached.version != 0 && cached.version <= current.version => {
                Refresh::Keep
            }
            Some(cached) if cached.uid != self.uid => Refresh::Replaced,
            Some(_) => Refresh::Take,
        }
    }

    /// The next step under `view`.
    #[must_use]
    pub fn decide(&self, view: &View<'_>) -> Step {
        if Direction::of(view.attachment) != self.direction {
            return Step::Again;
        }
        let step = match self.direction {
            Direction::Attach => self.attach(view),
            Direction::Detach => self.detach(view),
        };
        step.unwrap_or_else(Step::Fail)
    }

    /// Takes in what came of `step`.
    ///
    /// # Errors
    /// The attempt ends: says why.
    pub fn fold(&mut self, step: &Step, answer: Answer) -> Result<(), Failure> {
        let reached = match (step, answer) {
            (Step::LoadSecret(_), Answer::Secret(secrets)) => {
                self.secrets = LoadedSecret::Loaded(secrets);
                return Ok(());
            }
            (Step::LoadSecret(_), Answer::SecretNotText) => {
                self.secrets = LoadedSecret::NotText;
                return Ok(());
            }
            (Step::LoadSecret(reference), Answer::Refused(error)) => {
                return Err(Failure::Secret(reference.clone(), error));
            }
            (Step::Protect(..), Answer::Written) => Reached::Protected,
            (Step::Protect(..), Answer::Refused(error)) => return Err(Failure::Protect(error)),
            (Step::Prepare(_), Answer::Written) => Reached::Prepared,
            (Step::Prepare(_), Answer::Refused(error)) => return Err(Failure::Prepare(error)),
            (Step::Publish(..), Answer::Published(context)) => Reached::Published(context),
            (Step::Unpublish(..), Answer::Unpublished) => Reached::Unpublished,
            (Step::Publish(..) | Step::Unpublish(..), Answer::Failed(error)) => {
                return Err(Failure::Call(error));
            }
            (Step::Publish(..) | Step::Unpublish(..), Answer::Unreachable(error)) => {
                return Err(Failure::Unreachable(error));
            }
            (Step::MarkAttached(_), Answer::Refused(error)) => {
                return Err(Failure::MarkAttached(error));
            }
            (Step::Release(_), Answer::Written) => Reached::Released,
            // Somebody else removed the finalizer, and with it the object: nothing is left to do.
            (Step::Release(_) | Step::MarkDetached(_), Answer::Refused(error))
                if error.is_not_found() =>
            {
                Reached::Recorded
            }
            (Step::Release(_) | Step::MarkDetached(_), Answer::Refused(error)) => {
                return Err(Failure::MarkDetached(error));
            }
            (Step::MarkAttached(_) | Step::MarkDetached(_), Answer::Written) => Reached::Recorded,
            // No step gets an answer of another kind; the shell's types see to it.
            (_, _) => return Ok(()),
        };
        self.reached = reached;
        Ok(())
    }

    fn attach(&self, view: &View<'_>) -> Result<Step, Failure> {
        match &self.reached {
            Reached::Recorded => return Ok(Step::Done),
            Reached::Published(context) => {
                return Ok(Step::MarkAttached(status::attached(
                    view.attachment,
                    context,
                )));
            }
            Reached::Start
            | Reached::Protected
            | Reached::Prepared
            | Reached::Unpublished
            | Reached::Released => {}
        }
        if view.attachment.attached && !self.forced {
            return Ok(Step::Done);
        }
        let (spec, protect) = self.attach_spec(view)?;
        if let Some(step) = protect {
            return Ok(step);
        }
        let source = view.csi(spec)?;
        let capability = capability::volume_capability(spec, source, view.driver)
            .map_err(Failure::AccessModes)?;
        let secrets = match self.secrets(source)? {
            Ok(secrets) => secrets,
            Err(step) => return Ok(step),
        };
        let node_id = view.node_id()?;
        match status::prepare(view.attachment, node_id, view.driver) {
            Some(_) if matches!(self.reached, Reached::Prepared) => Err(Failure::PrepareIgnored),
            Some(patch) => Ok(Step::Prepare(patch)),
            None => {
                let driver = view.driver;
                let request = request::publish(source, node_id, capability, secrets, driver);
                Ok(Step::Publish(Box::new(request), view.migrated()))
            }
        }
    }

    /// The volume's specification, and the patch that must protect the volume first. The finalizer
    /// comes before all validation and translation, as it always did.
    fn attach_spec<'a>(&self, view: &View<'a>) -> Result<(&'a VolumeSpec, Option<Step>), Failure> {
        let (name, volume) = match view.source()? {
            From::Inline(spec) => return Ok((spec, None)),
            From::Volume(name, volume) => (name, volume),
        };
        if volume.deleting {
            return Err(Failure::VolumeDeleting(name.clone()));
        }
        let protect = match volume::protect(volume, &view.driver.finalizer) {
            Some(_) if matches!(self.reached, Reached::Protected) => {
                return Err(Failure::ProtectIgnored);
            }
            Some(patch) => Some(Step::Protect(name.clone(), patch)),
            None => None,
        };
        Ok((&volume.spec, protect))
    }

    fn detach(&self, view: &View<'_>) -> Result<Step, Failure> {
        let attachment = view.attachment;
        match &self.reached {
            Reached::Recorded => return Ok(Step::Done),
            Reached::Released => {
                return match status::release(attachment, view.driver) {
                    Some(_) => Err(Failure::ReleaseIgnored),
                    None => Ok(Step::MarkDetached(status::detached(attachment))),
                };
            }
            Reached::Unpublished => {
                return Ok(match status::release(attachment, view.driver) {
                    Some(patch) => Step::Release(patch),
                    // Only a forced detach comes here: the finalizer was gone before.
                    None if attachment.attached => Step::MarkDetached(status::detached(attachment)),
                    None => Step::Done,
                });
            }
            Reached::Start | Reached::Protected | Reached::Prepared | Reached::Published(_) => {}
        }
        if !self.forced && !attachment.has_finalizer(&view.driver.finalizer) {
            return Ok(Step::Done);
        }
        let source = view.csi(view.spec()?)?;
        let secrets = match self.secrets(source)? {
            Ok(secrets) => secrets,
            Err(step) => return Ok(step),
        };
        let request = request::unpublish(&source.handle, view.known_node_id()?, secrets);
        Ok(Step::Unpublish(Box::new(request), view.migrated()))
    }

    /// The Secret's values; the inner error is the step that loads them.
    fn secrets(&self, source: &CsiSource) -> Result<Result<&Secrets, Step>, Failure> {
        static NONE: Secrets = Secrets::new();
        match (&source.publish_secret, &self.secrets) {
            (None, _) => Ok(Ok(&NONE)),
            (Some(_), LoadedSecret::Loaded(secrets)) => Ok(Ok(secrets)),
            (Some(_), LoadedSecret::NotText) => Err(Failure::SecretNotText),
            (Some(reference), LoadedSecret::NotYet) => {
                Ok(Err(Step::LoadSecret((**reference).clone())))
            }
        }
    }
}

#[cfg(test)]
mod tests;
