//! The next step for a PersistentVolume: upkeep of its finalizer, deletion.
//!
//! The order of calls and writes below is what makes a crash at any point harmless, and the crash
//! simulation runs exactly this function. The volume goes first, in the storage system, and only
//! then the object that is all anybody knows of it.

use csi_proto::csi::DeleteVolumeRequest;
use serde_json::{Value, json};
use sidecar::controller::request::{Body, Part, Patch, SecretError};
use sidecar::controller::{self, CallError};
use sidecar::csi::Migrated;

use super::Driver;
use super::outcome::ApiError;
use super::reach::reaches;
use super::request::{Call, Called, Object, Purpose, Reply, Request, Secrets, Write};
use crate::keys::VOLUME_FINALIZER;
use crate::model::{
    Class, FinalizerAction, Owner, Pairs, Reclaim, Source, Text, Volume, VolumeDetail, VolumePhase,
};

mod failure;
mod secret;

pub use failure::Failure;

/// What a decision looks at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The driver.
    pub driver: &'a Driver,
    /// The volume.
    pub volume: &'a Volume,
    /// The class that the volume names, if it is there.
    pub class: Option<&'a Class>,
    /// Node of a VolumeAttachment, of whatever state, that names the volume. `None` also where
    /// VolumeAttachments are not watched, because the driver has nothing to publish.
    pub attached_to: Option<&'a Text>,
    /// VolumeAttachments are to be watched, and the watch is known to have missed some: none may
    /// be concluded from.
    pub attachments_missed: bool,
    /// Node deployment: the topology of this process's node, if the driver told one.
    pub node: Option<&'a Pairs>,
}

/// The one next thing to do.
pub enum Step {
    /// Nothing is left to do.
    Done,
    /// The volume is on another node: the process there deletes it.
    Ignored,
    /// This request.
    Ask(Request),
    /// This attempt cannot go on.
    Fail(Failure),
}

/// Which reading of the volume an attempt goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// The one it has.
    Keep,
    /// The cache's.
    Take,
    /// Neither: the object is gone, or another one has taken the name.
    Gone,
}

/// One attempt on a PersistentVolume: what was learnt and done so far that the object does not
/// show. A crash loses it, and nothing with it: DeleteVolume of a volume that is gone succeeds.
pub struct Attempt {
    name: Text,
    uid: Option<Text>,
    /// What was due for the finalizer of a volume that stays.
    upkeep: Option<FinalizerAction>,
    secrets: Option<Secrets>,
    reached: Reached,
}

/// The furthest point of the attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reached {
    Start,
    Deleted,
    Removed,
    Over,
}

impl Attempt {
    /// A new attempt on `volume`, which is called `name`.
    #[must_use]
    pub fn new(name: &Text, volume: &Volume) -> Self {
        Self {
            name: name.clone(),
            uid: uid(volume).cloned(),
            upkeep: upkeep(volume),
            secrets: None,
            reached: Reached::Start,
        }
    }

    /// Whether the volume is gone from the storage system, so that what is left concerns the
    /// object alone.
    #[must_use]
    pub fn has_deleted(&self) -> bool {
        matches!(self.reached, Reached::Deleted | Reached::Removed)
    }

    /// Whether the volume is to be looked at again when the attempt is over. An own write wakes
    /// nobody, and one that found the volume changed, to be kept after all or released meanwhile,
    /// may leave other work than it did. The same work again is somebody else's doing.
    #[must_use]
    pub fn is_to_follow(&self, current: &Volume) -> bool {
        match current {
            Volume::NameOnly => false,
            Volume::Finalizer(..) => self.upkeep.is_some() && upkeep(current) != self.upkeep,
            Volume::Deletable(_) => self.upkeep.is_some() && self.reached == Reached::Over,
        }
    }

    /// Which reading to go on with: `current`, read or written last by this attempt, or `cached`.
    ///
    /// An attempt that has deleted the volume finishes with the object whatever the cache says: it
    /// may be behind, and an object without a volume helps nobody.
    #[must_use]
    pub fn refresh(&self, current: &Volume, cached: Option<&Volume>) -> Refresh {
        let Some(cached) = cached else {
            return if self.has_deleted() {
                Refresh::Keep
            } else {
                Refresh::Gone
            };
        };
        if let (Some(begun), Some(cached)) = (&self.uid, uid(cached))
            && begun != cached
        {
            return Refresh::Gone;
        }
        match (detail(current), detail(cached)) {
            (Some(current), Some(cached)) if cached.version <= current.version => Refresh::Keep,
            (Some(_), None) if self.has_deleted() => Refresh::Keep,
            (Some(_) | None, _) => Refresh::Take,
        }
    }

    /// The next step under `view`.
    #[must_use]
    pub fn decide(&self, view: &View<'_>) -> Step {
        if self.reached == Reached::Over {
            return Step::Done;
        }
        match view.volume {
            Volume::NameOnly => Step::Done,
            Volume::Finalizer(due) if is_ours(&due.owner, view.driver) => {
                let patch = match due.action {
                    FinalizerAction::Add => adding(),
                    FinalizerAction::Remove => removing(),
                };
                self.write(Purpose::Upkeep, &due.uid, patch)
            }
            Volume::Finalizer(..) => Step::Done,
            Volume::Deletable(volume) if concerns(&volume.owner, view.driver) => {
                self.end(volume, view).unwrap_or_else(Step::Fail)
            }
            Volume::Deletable(_) => Step::Done,
        }
    }

    fn end(&self, volume: &VolumeDetail, view: &View<'_>) -> Result<Step, Failure> {
        match self.reached {
            Reached::Deleted if !volume.deleting => {
                return Ok(self.write(Purpose::Remove, &volume.uid, Body::Delete(None)));
            }
            Reached::Deleted | Reached::Removed => {
                return Ok(if volume.is_protected() {
                    self.write(Purpose::Release, &volume.uid, removing())
                } else {
                    Step::Done
                });
            }
            Reached::Start | Reached::Over => {}
        }
        if matches!(volume.reclaim, Reclaim::Retain | Reclaim::Recycle) {
            let due = volume.is_protected() && is_ours(&volume.owner, view.driver);
            return Ok(if due {
                self.write(Purpose::Upkeep, &volume.uid, removing())
            } else {
                Step::Done
            });
        }
        if !is_due(volume) {
            return Ok(Step::Done);
        }
        self.delete(volume, view)
    }

    fn delete(&self, volume: &VolumeDetail, view: &View<'_>) -> Result<Step, Failure> {
        let source = match &volume.source {
            // The id of another driver's volume may be the id of one of this driver's.
            Source::Csi(source) if *source.driver != *view.driver.name => {
                return Err(Failure::OtherDriver(source.driver.clone()));
            }
            Source::InTree(source) if *source.driver != *view.driver.name => {
                return Err(Failure::OtherDriver(source.driver.into()));
            }
            Source::Csi(source) => source,
            Source::InTree(source) => match &source.csi {
                Ok(source) => source,
                Err(why) => return Err(Failure::Untranslatable(why.clone())),
            },
            Source::Other => return Err(Failure::NotCsi),
        };
        if let Some(node) = view.node
            && !reaches(volume.affinity.as_deref(), node)
        {
            return Ok(Step::Ignored);
        }
        let abilities = view.driver.abilities;
        if !abilities.controller || !abilities.create_delete {
            return Err(Failure::Incapable);
        }
        let reference = secret::reference(volume, view.class, view.driver)?;
        let secrets = match (reference, &self.secrets) {
            (None, _) => Secrets::new(),
            (Some(_), Some(secrets)) => secrets.clone(),
            (Some(reference), None) => return Ok(Step::Ask(Request::Secret(reference))),
        };
        if let Some(node) = view.attached_to {
            return Err(Failure::Attached(volume.name.clone(), node.clone()));
        }
        if view.attachments_missed {
            return Err(Failure::AttachmentsMissed);
        }
        let request = DeleteVolumeRequest {
            volume_id: source.handle.to_string(),
            secrets,
        };
        let call = controller::Call::new(request, Migrated(volume.owner.in_tree));
        Ok(Step::Ask(Request::Call(Call::Delete(call))))
    }

    /// A write of this volume.
    fn write(&self, purpose: Purpose, uid: &Text, body: Body) -> Step {
        Step::Ask(Request::Write(Write {
            purpose,
            object: Object::Volume(self.name.clone()),
            uid: Some(uid.clone()),
            body,
        }))
    }

    /// Takes in what came of a request.
    ///
    /// # Errors
    /// The attempt ends: says why.
    pub fn answered(&mut self, reply: Reply) -> Result<(), Failure> {
        match reply {
            Reply::Write(write, result) => return self.written(&write.purpose, result.map(drop)),
            Reply::Secret(_, Ok(secrets)) => self.secrets = Some(secrets),
            // The driver may do without; only it can tell.
            Reply::Secret(_, Err(SecretError::Unread(_))) => self.secrets = Some(Secrets::new()),
            Reply::Secret(secret, Err(SecretError::NotText)) => {
                return Err(Failure::SecretNotText(secret));
            }
            Reply::Call(Called::Delete(_, Ok(_)), _) => self.reached = Reached::Deleted,
            Reply::Call(Called::Delete(_, Err(error)), _) => {
                let (CallError::Unreachable(error) | CallError::Failed(error)) = error;
                return Err(Failure::Call(error));
            }
            // It asks for no such thing.
            Reply::Get(..) | Reply::Call(..) | Reply::Event(_) => {}
        }
        Ok(())
    }

    fn written(&mut self, purpose: &Purpose, result: Result<(), ApiError>) -> Result<(), Failure> {
        self.reached = match (purpose, result) {
            (Purpose::Remove, Ok(())) => Reached::Removed,
            (_, Ok(())) => Reached::Over,
            // The object is gone, which is all that was wanted.
            (_, Err(error)) if error.is_not_found() => Reached::Over,
            (Purpose::Remove, Err(error)) => return Err(Failure::Remove(error)),
            (Purpose::Release, Err(error)) => return Err(Failure::Release(error)),
            (_, Err(error)) => return Err(Failure::FinalizerAction(error)),
        };
        Ok(())
    }
}

/// The object's UID, if anything is due for it.
#[must_use]
pub fn uid(volume: &Volume) -> Option<&Text> {
    match volume {
        Volume::Deletable(detail) => Some(&detail.uid),
        Volume::Finalizer(due) => Some(&due.uid),
        Volume::NameOnly => None,
    }
}

fn detail(volume: &Volume) -> Option<&VolumeDetail> {
    match volume {
        Volume::Deletable(detail) => Some(detail),
        Volume::NameOnly | Volume::Finalizer(..) => None,
    }
}

/// Whether the volume is this driver's, and has a source that it can be asked for.
#[must_use]
pub fn is_ours(owner: &Owner, driver: &Driver) -> bool {
    owner.csi_driver.as_deref() == Some(&*driver.name) && concerns(owner, driver)
}

fn upkeep(volume: &Volume) -> Option<FinalizerAction> {
    match volume {
        Volume::Finalizer(due) => Some(due.action),
        Volume::NameOnly | Volume::Deletable(_) => None,
    }
}

/// Whether the volume is this driver's, be it through migration of an in-tree plugin. That the plugin
/// made it is not enough: as long as kube-controller-manager does not say where it was moved to, it
/// deletes the volume itself, and takes the finalizer away that was added here.
#[must_use]
pub fn concerns(owner: &Owner, driver: &Driver) -> bool {
    let named = |name: &Option<Text>| name.as_deref() == Some(&*driver.name);
    match (&owner.provisioned_by, &owner.csi_driver) {
        (None, Some(_)) if !owner.in_tree => named(&owner.csi_driver),
        (Some(_) | None, _) => named(&owner.provisioned_by) || named(&owner.migrated_to),
    }
}

/// Whether the volume in the storage system is to be deleted. A deleted object without our
/// finalizer has been dealt with, by whomever.
fn is_due(volume: &VolumeDetail) -> bool {
    volume.reclaim == Reclaim::Delete
        && volume.phase == VolumePhase::Released
        && (!volume.deleting || volume.is_protected())
}

/// Adds the finalizer to whatever others are there by then.
fn adding() -> Body {
    patch(json!({ "finalizers": [VOLUME_FINALIZER] }))
}

/// Removes the finalizer and no other.
pub(crate) fn removing() -> Body {
    patch(json!({ "$deleteFromPrimitiveList/finalizers": [VOLUME_FINALIZER] }))
}

fn patch(metadata: Value) -> Body {
    let patch = Patch::Strategic(json!({ "metadata": metadata }));
    Body::Patch(Part::Main, patch)
}

#[cfg(test)]
mod tests;
