//! The next step for a PersistentVolume: adding or removing its finalizer, deletion.
//!
//! The order of calls and writes below makes a crash at any point harmless, and the crash simulation runs exactly this
//! function. The volume in the storage system is deleted first, and only then the object, which is the only record of
//! it.

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

/// Input of a decision on a volume.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The driver.
    pub driver: &'a Driver,
    /// The volume.
    pub volume: &'a Volume,
    /// The class that the volume names, if it exists.
    pub class: Option<&'a Class>,
    /// Node of a VolumeAttachment, in any state, that names the volume. `None` also where VolumeAttachments are not
    /// watched, because the driver lacks `PUBLISH_UNPUBLISH_VOLUME`.
    pub attached_to: Option<&'a Text>,
    /// VolumeAttachments are watched, and the watch is known to have missed some: the volume may be attached without
    /// any in the cache.
    pub attachments_missed: bool,
    /// Node deployment: the topology of this process's node, if the driver reported one.
    pub node: Option<&'a Pairs>,
}

/// The next step.
pub enum Step {
    /// Nothing is left to do.
    Done,
    /// The volume is on another node, whose process deletes it.
    Ignored,
    /// Sends this request.
    Ask(Request),
    /// The attempt fails.
    Fail(Failure),
}

/// The state of the volume that an attempt continues with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// Keep the current state.
    Keep,
    /// Take the cache's state.
    Take,
    /// Neither: the object is gone, or another one has taken the name.
    Gone,
}

/// One attempt on a PersistentVolume: the progress that the object does not show. A crash loses it without harm:
/// DeleteVolume succeeds for a volume that does not exist.
pub struct Attempt {
    name: Text,
    uid: Option<Text>,
    /// The finalizer change that was due when the attempt began, for a volume that is not deleted.
    upkeep: Option<FinalizerAction>,
    secrets: Option<Secrets>,
    reached: Reached,
}

/// The last milestone of the attempt.
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

    /// Whether the driver has deleted the volume, so that only the object is left.
    #[must_use]
    pub fn has_deleted(&self) -> bool {
        matches!(self.reached, Reached::Deleted | Reached::Removed)
    }

    /// Whether the volume has to be looked at again after the attempt. The process's own write requeues nothing, and
    /// one that found the volume changed, to be kept after all or released meanwhile, may leave other work than it did.
    /// If the same work is due again, somebody else has caused it, and the change requeues the volume.
    #[must_use]
    pub fn is_to_follow(&self, current: &Volume) -> bool {
        match current {
            Volume::NameOnly => false,
            Volume::Finalizer(..) => self.upkeep.is_some() && upkeep(current) != self.upkeep,
            Volume::Deletable(_) => self.upkeep.is_some() && self.reached == Reached::Over,
        }
    }

    /// Which state to continue with: `current`, which this attempt read or wrote last, or `cached`.
    ///
    /// An attempt that has deleted the volume finishes with the object whatever the cache has: the cache may be behind,
    /// and an object without a volume helps nobody.
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
            // The handle of another driver's volume may also be the handle of one of this driver's.
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

    /// Applies the reply to a request.
    ///
    /// # Errors
    /// Why the attempt ends.
    pub fn answered(&mut self, reply: Reply) -> Result<(), Failure> {
        match reply {
            Reply::Write(write, result) => return self.written(&write.purpose, result.map(drop)),
            Reply::Secret(_, Ok(secrets)) => self.secrets = Some(secrets),
            // The driver may not need the Secret; only it can tell.
            Reply::Secret(_, Err(SecretError::Unread(_))) => self.secrets = Some(Secrets::new()),
            Reply::Secret(secret, Err(SecretError::NotText)) => {
                return Err(Failure::SecretNotText(secret));
            }
            Reply::Call(Called::Delete(_, Ok(_)), _) => self.reached = Reached::Deleted,
            Reply::Call(Called::Delete(_, Err(error)), _) => {
                let (CallError::Unreachable(error) | CallError::Failed(error)) = error;
                return Err(Failure::Call(error));
            }
            // An attempt on a volume sends no such requests.
            Reply::Get(..) | Reply::Call(..) | Reply::Event(_) => {}
        }
        Ok(())
    }

    fn written(&mut self, purpose: &Purpose, result: Result<(), ApiError>) -> Result<(), Failure> {
        self.reached = match (purpose, result) {
            (Purpose::Remove, Ok(())) => Reached::Removed,
            (_, Ok(())) => Reached::Over,
            // The object is gone, as intended.
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

/// Whether the volume is this driver's, and has a source of this driver.
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

/// Whether the volume is this driver's, maybe through migration of an in-tree plugin. It is not enough that the plugin
/// made it: until kube-controller-manager annotates the driver that it was migrated to, kube-controller-manager deletes
/// the volume itself, and removes a finalizer that was added here.
#[must_use]
pub fn concerns(owner: &Owner, driver: &Driver) -> bool {
    let named = |name: &Option<Text>| name.as_deref() == Some(&*driver.name);
    match (&owner.provisioned_by, &owner.csi_driver) {
        (None, Some(_)) if !owner.in_tree => named(&owner.csi_driver),
        (Some(_) | None, _) => named(&owner.provisioned_by) || named(&owner.migrated_to),
    }
}

/// Whether the volume in the storage system has to be deleted. A deleted object without our finalizer has been dealt
/// with, by this or another process.
fn is_due(volume: &VolumeDetail) -> bool {
    volume.reclaim == Reclaim::Delete
        && volume.phase == VolumePhase::Released
        && (!volume.deleting || volume.is_protected())
}

/// Adds the finalizer to the present ones.
fn adding() -> Body {
    patch(json!({ "finalizers": [VOLUME_FINALIZER] }))
}

/// Removes this finalizer only.
pub(crate) fn removing() -> Body {
    patch(json!({ "$deleteFromPrimitiveList/finalizers": [VOLUME_FINALIZER] }))
}

fn patch(metadata: Value) -> Body {
    let patch = Patch::Strategic(json!({ "metadata": metadata }));
    Body::Patch(Part::Main, patch)
}

#[cfg(test)]
mod tests;
