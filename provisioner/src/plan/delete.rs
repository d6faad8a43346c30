//! The next step for a PersistentVolume: upkeep of its finalizer, deletion.
//!
//! The order of calls and writes below is what makes a crash at any point harmless, and the crash
//! simulation runs exactly this function. The volume goes first, in the storage system, and only
//! then the object that is all anybody knows of it.

use std::collections::BTreeMap;

use csi_proto::csi::DeleteVolumeRequest;
use serde_json::{Value, json};
use sidecar::csi::Migrated;

use super::Driver;
use super::outcome::{ApiError, RpcError};
use super::reach::reaches;
use crate::keys::VOLUME_FINALIZER;
use crate::model::{
    Class, FinalizerAction, Owner, Pairs, Reclaim, SecretRef, Source, Text, Volume, VolumeDetail,
    VolumePhase,
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

/// The one next thing to do, complete in every detail.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// Nothing is left to do.
    Done,
    /// The volume is on another node: the process there deletes it.
    Ignored,
    /// Strategic merge patch of the volume: adds or removes the finalizer.
    FinalizerAction(Value),
    /// GET of a Secret.
    LoadSecret(SecretRef),
    /// `DeleteVolume`; and whether it is counted as one for a volume of an in-tree plugin.
    Delete(Box<DeleteVolumeRequest>, Migrated),
    /// DELETE of the object if it still has this UID.
    Remove {
        /// `metadata.uid`
        uid: Text,
    },
    /// Strategic merge patch of the volume: removes the finalizer.
    Release(Value),
    /// This attempt cannot go on.
    Fail(Failure),
}

impl Step {
    /// The answer to it if it is not taken.
    #[must_use]
    pub fn unsent(&self, why: String) -> Answer {
        if matches!(self, Self::Delete(..)) {
            Answer::Failed(RpcError::unsent(why))
        } else {
            Answer::Refused(ApiError::local(why))
        }
    }
}

/// What came of a step.
#[derive(Debug)]
pub enum Answer {
    /// The write was applied; the view shows its result from now on.
    Written,
    /// The API server refused, or did not answer.
    Refused(ApiError),
    /// The Secret.
    Secret(BTreeMap<String, String>),
    /// The Secret has a value that is not UTF-8.
    SecretNotText,
    /// The volume is gone from the storage system.
    Deleted,
    /// The call failed.
    Failed(RpcError),
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
    uid: Option<Text>,
    /// What was due for the finalizer of a volume that stays.
    upkeep: Option<FinalizerAction>,
    secrets: Option<BTreeMap<String, String>>,
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
    /// A new attempt on `volume`.
    #[must_use]
    pub fn new(volume: &Volume) -> Self {
        Self {
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
                Step::FinalizerAction(match due.action {
                    FinalizerAction::Add => adding(),
                    FinalizerAction::Remove => removing(),
                })
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
                let uid = volume.uid.clone();
                return Ok(Step::Remove { uid });
            }
            Reached::Deleted | Reached::Removed => {
                return Ok(if volume.is_protected() {
                    Step::Release(removing())
                } else {
                    Step::Done
                });
            }
            Reached::Start | Reached::Over => {}
        }
        if matches!(volume.reclaim, Reclaim::Retain | Reclaim::Recycle) {
            let due = volume.is_protected() && is_ours(&volume.owner, view.driver);
            return Ok(if due {
                Step::FinalizerAction(removing())
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
            (None, _) => BTreeMap::new(),
            (Some(_), Some(secrets)) => secrets.clone(),
            (Some(reference), None) => return Ok(Step::LoadSecret(reference)),
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
        let migrated = Migrated(volume.owner.in_tree);
        Ok(Step::Delete(Box::new(request), migrated))
    }

    /// Takes in what came of `step`.
    ///
    /// # Errors
    /// The attempt ends: says why.
    pub fn fold(&mut self, step: &Step, answer: Answer) -> Result<(), Failure> {
        match (step, answer) {
            (Step::LoadSecret(_), Answer::Secret(secrets)) => self.secrets = Some(secrets),
            // The driver may do without; only it can tell.
            (Step::LoadSecret(_), Answer::Refused(_)) => self.secrets = Some(BTreeMap::new()),
            (Step::LoadSecret(reference), Answer::SecretNotText) => {
                return Err(Failure::SecretNotText(reference.clone()));
            }
            (Step::Delete(..), Answer::Deleted) => self.reached = Reached::Deleted,
            (Step::Delete(..), Answer::Failed(error)) => return Err(Failure::Call(error)),
            (Step::Remove { .. }, Answer::Written) => self.reached = Reached::Removed,
            (Step::FinalizerAction(_) | Step::Release(_), Answer::Written) => {
                self.reached = Reached::Over
            }
            // The object is gone, which is all that was wanted.
            (
                Step::FinalizerAction(_) | Step::Remove { .. } | Step::Release(_),
                Answer::Refused(error),
            ) if error.is_not_found() => self.reached = Reached::Over,
            (Step::FinalizerAction(_), Answer::Refused(error)) => {
                return Err(Failure::FinalizerAction(error));
            }
            (Step::Remove { .. }, Answer::Refused(error)) => return Err(Failure::Remove(error)),
            (Step::Release(_), Answer::Refused(error)) => return Err(Failure::Release(error)),
            // No step gets an answer of another kind; the shell's types see to it.
            (_, _) => {}
        }
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
#[must_use]
pub fn adding() -> Value {
    json!({ "metadata": { "finalizers": [VOLUME_FINALIZER] } })
}

/// Removes the finalizer and no other.
#[must_use]
pub fn removing() -> Value {
    json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": [VOLUME_FINALIZER] } })
}

#[cfg(test)]
mod tests;
