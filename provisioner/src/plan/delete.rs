//! The script of a PersistentVolume: adding or removing its finalizer, deletion.
//!
//! The order of calls and writes below makes a crash at any point harmless, and the crash simulation runs exactly this
//! function. The volume in the storage system is deleted first, and only then the object, which is the only record of
//! it.

use std::sync::Arc;
use std::time::Instant;

use csi_proto::csi::DeleteVolumeRequest;
use serde_json::json;
use sidecar::controller::request::{Body, Part, Patch, SecretError};
use sidecar::controller::script::{self, Leave};
use sidecar::controller::{self, CallError};
use sidecar::csi::Migrated;

use super::reach::reaches;
use super::request::{Call, Called, Found, Object, Purpose, Reply, Write};
use super::{Driver, Informers, Provisioner};
use crate::keys::VOLUME_FINALIZER;
use crate::model::{
    FinalizerAction, Owner, Pairs, Reclaim, Source, Text, Volume, VolumeDetail, VolumePhase,
};

mod failure;
mod secret;

pub use failure::Failure;

/// The requests of an attempt, with their replies.
type Log = script::Log<Provisioner>;
/// A value, or why the script stops.
type Flow<T> = script::Flow<T, Provisioner, End>;
type DeleteVolume = controller::Call<DeleteVolumeRequest>;

/// How an attempt ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing is left to do.
    Done,
    /// The volume is on another node, whose process deletes it.
    OfAnotherNode,
    /// The attempt failed and will be retried.
    Failed(Failure),
}

impl From<Failure> for Leave<Provisioner, End> {
    fn from(failure: Failure) -> Self {
        Self::End(End::Failed(failure))
    }
}

/// An attempt on a PersistentVolume. A crash loses it without harm: DeleteVolume succeeds for a volume that does not
/// exist.
pub struct Attempt {
    pub(super) name: Text,
    /// The volume when the attempt began.
    begun: Arc<Volume>,
    /// The newest reading: from the cache, or from the reply to this attempt's last write.
    pub(super) current: Arc<Volume>,
    pub(super) started: Instant,
    log: Log,
    pub(super) over: Option<End>,
}

impl Attempt {
    /// A new attempt on `volume`, which is called `name`.
    pub(super) fn new(name: &Text, volume: Arc<Volume>, now: Instant) -> Self {
        Self {
            name: name.clone(),
            begun: Arc::clone(&volume),
            current: volume,
            started: now,
            log: Log::default(),
            over: None,
        }
    }

    /// Whether the driver has deleted the volume.
    pub(super) fn has_deleted(&self) -> bool {
        matches!(self.log.called::<DeleteVolume>(), Some((_, Ok(_))))
    }

    /// The last write succeeded, or the object is gone, as intended.
    fn is_finished(&self) -> bool {
        self.log.writes().any(|(write, result)| match result {
            Ok(_) => write.purpose != Purpose::Remove,
            Err(error) => error.is_not_found(),
        })
    }

    /// Whether the volume has to be looked at again after the attempt. The process's own write requeues nothing, and
    /// one that found the volume changed, to be kept after all or released meanwhile, may leave other work than it did.
    /// If the same work is due again, somebody else has caused it, and the change requeues the volume.
    pub(super) fn is_to_follow(&self) -> bool {
        match (&*self.begun, &*self.current) {
            (Volume::Finalizer(begun), Volume::Finalizer(left)) => left.action != begun.action,
            (Volume::Finalizer(_), Volume::Deletable(_)) => self.is_finished(),
            (_, _) => false,
        }
    }

    /// Adopts the cached volume if it is newer; the cache may lag behind this attempt's own writes.
    ///
    /// An attempt that has deleted the volume finishes with the object whatever the cache has: the cache may be behind,
    /// and an object without a volume helps nobody.
    ///
    /// # Errors
    /// Ends the attempt if the object is gone, or another one has taken the name.
    fn refresh(&mut self, cached: Option<Arc<Volume>>) -> Result<(), End> {
        let finishes = self.has_deleted() && !self.is_finished();
        let Some(cached) = cached else {
            return if finishes { Ok(()) } else { Err(End::Done) };
        };
        let uids = uid(&self.begun).zip(uid(&cached));
        if uids.is_some_and(|(begun, cached)| begun != cached) {
            return Err(End::Done);
        }
        let newer = match (&*self.current, &*cached) {
            (Volume::Deletable(current), Volume::Deletable(cached)) => {
                cached.version > current.version
            }
            (Volume::Deletable(_), _) => !finishes,
            (_, _) => true,
        };
        if newer {
            self.current = cached;
        }
        Ok(())
    }

    /// Takes in the reply to a request. One that failed ends the attempt, whatever the object shows by then.
    pub(super) fn answered(&mut self, reply: Reply) {
        if let Reply::Write(_, Ok(Found::Volume(found))) = &reply {
            self.current = Arc::clone(found);
        }
        self.over = failure(&reply).map(End::Failed);
        self.log.push(reply);
    }

    /// Deletes the object, and removes the finalizer that keeps it.
    fn remove(&self, volume: &VolumeDetail) -> Flow<()> {
        let remove = || self.write(Purpose::Remove, Body::Delete(None));
        self.log.once((!volume.deleting).then(remove))?;
        let release = || self.write(Purpose::Release, finalizer(FinalizerAction::Remove));
        script::write(volume.is_protected().then(release))
    }

    /// A write of this volume.
    fn write(&self, purpose: Purpose, body: Body) -> Write {
        Write {
            purpose,
            object: Object::Volume(self.name.clone()),
            uid: uid(&self.current).cloned(),
            body,
        }
    }
}

impl Provisioner {
    /// The script: adds or removes the finalizer, or deletes the volume and then its object.
    pub(super) fn volume_script(
        &self,
        attempt: &mut Attempt,
        informers: &dyn Informers,
    ) -> Flow<End> {
        attempt.refresh(informers.volume(&attempt.name))?;
        if attempt.is_finished() {
            return Ok(End::Done);
        }
        let (attempt, driver) = (&*attempt, informers.driver());
        match &*attempt.current {
            Volume::Finalizer(due) if is_ours(&due.owner, &driver) => {
                let upkeep = attempt.write(Purpose::Upkeep, finalizer(due.action));
                script::write(Some(upkeep))?;
            }
            Volume::Deletable(volume) if concerns(&volume.owner, &driver) => {
                if attempt.has_deleted() {
                    attempt.remove(volume)?;
                } else if is_due(volume) {
                    self.delete(attempt, volume, &driver, informers)?;
                }
            }
            Volume::NameOnly | Volume::Finalizer(_) | Volume::Deletable(_) => {}
        }
        Ok(End::Done)
    }

    /// Calls DeleteVolume, once nothing is in its way.
    fn delete(
        &self,
        attempt: &Attempt,
        volume: &VolumeDetail,
        driver: &Driver,
        informers: &dyn Informers,
    ) -> Flow<()> {
        let volume_id = handle(volume, driver)?.to_owned();
        let elsewhere = |node: &Pairs| !reaches(volume.affinity.as_deref(), node);
        if self.node.as_ref().is_some_and(elsewhere) {
            return Err(End::OfAnotherNode.into());
        }
        if !driver.abilities.controller || !driver.abilities.create_delete {
            return Err(Failure::Incapable.into());
        }
        let class = informers.class(&volume.class);
        let secret = secret::reference(volume, class.as_deref(), driver)?;
        // The driver may not need a Secret that cannot be read; only it can tell.
        let secrets = attempt.log.secret(secret)?.cloned().unwrap_or_default();
        // In this order: otherwise a list that ends in between would hide missed attachments from both.
        let attachments_missed = informers.misses_attachments();
        if let Some(node) = self.attached.node_of(&attempt.name) {
            return Err(Failure::Attached(volume.name.clone(), node.clone()).into());
        }
        if attachments_missed {
            return Err(Failure::AttachmentsMissed.into());
        }
        let request = DeleteVolumeRequest { volume_id, secrets };
        let call = DeleteVolume::new(request, Migrated(volume.owner.in_tree));
        script::call(Call::Delete(call))
    }
}

/// Why this reply ends the attempt.
fn failure(reply: &Reply) -> Option<Failure> {
    Some(match reply {
        Reply::Write(write, Err(error)) if !error.is_not_found() => {
            match (&write.purpose, error.clone()) {
                (Purpose::Remove, error) => Failure::Remove(error),
                (Purpose::Release, error) => Failure::Release(error),
                (_, error) => Failure::FinalizerAction(error),
            }
        }
        Reply::Secret(secret, Err(SecretError::NotText)) => Failure::SecretNotText(secret.clone()),
        Reply::Call(Called::Delete(_, Err(error)), _) => {
            let (CallError::Unreachable(error) | CallError::Failed(error)) = error;
            Failure::Call(error.clone())
        }
        Reply::Get(..)
        | Reply::Write(..)
        | Reply::Secret(..)
        | Reply::Call(..)
        | Reply::Event(_) => return None,
    })
}

/// The handle by which the driver knows the volume. That of another driver's volume may also be the handle of one of
/// this driver's.
fn handle<'a>(volume: &'a VolumeDetail, driver: &Driver) -> Result<&'a str, Failure> {
    match (volume.driver(), &volume.source) {
        (Some(other), _) if *other != *driver.name => Err(Failure::OtherDriver(other.into())),
        (_, Source::Csi(source)) => Ok(&source.handle),
        (_, Source::InTree(source)) => match &source.csi {
            Ok(source) => Ok(&source.handle),
            Err(why) => Err(Failure::Untranslatable(why.clone())),
        },
        (_, Source::Other) => Err(Failure::NotCsi),
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

/// Whether the volume is this driver's, and has a source of this driver.
#[must_use]
pub fn is_ours(owner: &Owner, driver: &Driver) -> bool {
    owner.csi_driver.as_deref() == Some(&*driver.name) && concerns(owner, driver)
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

/// Adds the finalizer to the present ones, or removes this one only.
pub(crate) fn finalizer(action: FinalizerAction) -> Body {
    let list = match action {
        FinalizerAction::Add => "finalizers",
        FinalizerAction::Remove => "$deleteFromPrimitiveList/finalizers",
    };
    let patch = json!({ "metadata": { list: [VOLUME_FINALIZER] } });
    Body::Patch(Part::Main, Patch::Strategic(patch))
}

#[cfg(test)]
mod tests;
