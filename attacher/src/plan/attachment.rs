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

use serde_json::Value;
use sidecar::controller::request::{Part, SecretError};

use super::outcome::{ApiError, Direction, Failure};
use super::request::{self, Call, Called, Progress, Purpose, Request, Secrets};
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
    /// The Secret of the current attempt; it is read anew in each.
    secrets: Option<Secrets>,
    reached: Reached,
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

/// The one next thing to do.
pub enum Step {
    /// The goal is reached.
    Done,
    /// The goal changed during the attempt: start a new one at once.
    Again,
    /// This request.
    Ask(Request),
    /// This attempt cannot go on.
    Fail(Failure),
}

impl Attempt {
    /// A new attempt on `attachment`. `forced`: the driver's list contradicts the status.
    #[must_use]
    pub fn new(attachment: &Attachment, forced: bool) -> Self {
        Self {
            uid: attachment.uid.clone(),
            direction: Direction::of(attachment),
            forced,
            secrets: None,
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

    /// Takes in what came of a write.
    ///
    /// # Errors
    /// The attempt ends: says why.
    pub fn written(&mut self, what: Progress, result: Result<(), ApiError>) -> Result<(), Failure> {
        self.reached = match (what, result) {
            (Progress::Protect, Ok(())) => Reached::Protected,
            (Progress::Protect, Err(error)) => return Err(Failure::Protect(error)),
            (Progress::Prepare, Ok(())) => Reached::Prepared,
            (Progress::Prepare, Err(error)) => return Err(Failure::Prepare(error)),
            (Progress::MarkAttached, Err(error)) => return Err(Failure::MarkAttached(error)),
            (Progress::Release, Ok(())) => Reached::Released,
            // Somebody else removed the finalizer, and with it the object: nothing is left to do.
            (Progress::Release | Progress::MarkDetached, Err(error)) if error.is_not_found() => {
                Reached::Recorded
            }
            (Progress::Release | Progress::MarkDetached, Err(error)) => {
                return Err(Failure::MarkDetached(error));
            }
            (Progress::MarkAttached | Progress::MarkDetached, Ok(())) => Reached::Recorded,
        };
        Ok(())
    }

    /// Takes in the values of the Secret.
    ///
    /// # Errors
    /// The attempt ends: it could not be read.
    pub fn loaded(
        &mut self,
        secret: SecretRef,
        values: Result<Secrets, SecretError>,
    ) -> Result<(), Failure> {
        let values = values.map_err(|error| Failure::secret(secret, error))?;
        self.secrets = Some(values);
        Ok(())
    }

    /// Takes in what came of a call.
    ///
    /// # Errors
    /// The attempt ends: the call failed.
    pub fn called(&mut self, called: Called) -> Result<(), Failure> {
        self.reached = match called {
            Called::Publish(_, Ok(response)) => Reached::Published(response.publish_context),
            Called::Unpublish(_, Ok(_)) => Reached::Unpublished,
            Called::Publish(_, Err(error)) | Called::Unpublish(_, Err(error)) => {
                return Err(error.into());
            }
        };
        Ok(())
    }

    fn attach(&self, view: &View<'_>) -> Result<Step, Failure> {
        match &self.reached {
            Reached::Recorded => return Ok(Step::Done),
            Reached::Published(context) => {
                let body = status::attached(view.attachment, context);
                return Ok(patch_status(view, Progress::MarkAttached, body));
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
        let secrets = match self.secrets(source) {
            Ok(secrets) => secrets,
            Err(step) => return Ok(step),
        };
        let node_id = view.node_id()?;
        match status::prepare(view.attachment, node_id, view.driver) {
            Some(_) if matches!(self.reached, Reached::Prepared) => Err(Failure::PrepareIgnored),
            Some(body) => Ok(patch(view, Progress::Prepare, body)),
            None => {
                let driver = view.driver;
                let message = request::publish(source, node_id, capability, secrets, driver);
                let call = Call::Publish(sidecar::controller::Call::new(message, view.migrated()));
                Ok(Step::Ask(Request::Call(call)))
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
            Some(patch) => {
                let purpose = Purpose::Goal(Progress::Protect);
                Some(Step::Ask(request::patch_volume(name, purpose, patch)))
            }
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
                    None => Ok(mark_detached(view)),
                };
            }
            Reached::Unpublished => {
                return Ok(match status::release(attachment, view.driver) {
                    Some(body) => patch(view, Progress::Release, body),
                    // Only a forced detach comes here: the finalizer was gone before.
                    None if attachment.attached => mark_detached(view),
                    None => Step::Done,
                });
            }
            Reached::Start | Reached::Protected | Reached::Prepared | Reached::Published(_) => {}
        }
        if !self.forced && !attachment.has_finalizer(&view.driver.finalizer) {
            return Ok(Step::Done);
        }
        let source = view.csi(view.spec()?)?;
        let secrets = match self.secrets(source) {
            Ok(secrets) => secrets,
            Err(step) => return Ok(step),
        };
        let message = request::unpublish(&source.handle, view.known_node_id()?, secrets);
        let call = Call::Unpublish(sidecar::controller::Call::new(message, view.migrated()));
        Ok(Step::Ask(Request::Call(call)))
    }

    /// The Secret's values.
    ///
    /// # Errors
    /// The step that loads them.
    fn secrets(&self, source: &CsiSource) -> Result<&Secrets, Step> {
        static NONE: Secrets = Secrets::new();
        match (&source.publish_secret, &self.secrets) {
            (None, _) => Ok(&NONE),
            (Some(_), Some(secrets)) => Ok(secrets),
            (Some(secret), None) => Err(Step::Ask(Request::Secret((**secret).clone()))),
        }
    }
}

fn patch(view: &View<'_>, what: Progress, body: Value) -> Step {
    let purpose = Purpose::Goal(what);
    Step::Ask(request::patch(view.attachment, purpose, Part::Main, body))
}

fn patch_status(view: &View<'_>, what: Progress, body: Value) -> Step {
    let purpose = Purpose::Goal(what);
    Step::Ask(request::patch(view.attachment, purpose, Part::Status, body))
}

fn mark_detached(view: &View<'_>) -> Step {
    let body = status::detached(view.attachment);
    patch_status(view, Progress::MarkDetached, body)
}

#[cfg(test)]
mod tests;
