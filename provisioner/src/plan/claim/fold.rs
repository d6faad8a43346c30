//! The effect of replies on the attempt.

use std::sync::Arc;

use csi_proto::csi::CreateVolumeResponse;
use sidecar::controller::CallError;
use sidecar::controller::request::{Object as _, SecretError};
use tonic::Code;

use super::{Announcement, Attempt, ClaimReply, ClaimStep, Failure, Reached, Step};
use crate::model::VolumeDetail;
use crate::plan::identity::Identity;
use crate::plan::in_flight::Asked;
use crate::plan::outcome::{ApiError, Refusal, RpcError};
use crate::plan::pv::{self, Unusable};
use crate::plan::request::{
    Called, Found, Object, PinnedRequest, Purpose, Reply, Request, Secrets, Write,
};

/// Conflicts after which a snapshot is left to the sweep. Somebody who deletes it the moment that its restored volume is
/// bound causes one, and would wait for the sweep, or for ever where that is off.
const MAX_RELEASE_CONFLICTS: u8 = 3;

impl Attempt {
    /// Applies the reply to a request.
    ///
    /// # Errors
    /// Why the attempt ends.
    pub fn answered(&mut self, reply: Reply) -> Result<(), Failure> {
        match reply {
            Reply::Event(event) => match event.announcement {
                Announcement::Provisioning => self.announced = true,
                Announcement::Left(_) => self.left = None,
                Announcement::Populator | Announcement::Succeeded(_) => {
                    self.concluded.announced = true;
                }
            },
            Reply::Get(owner @ Object::Owner(..), found) => return self.met_owner(&owner, found),
            Reply::Get(object, found) => {
                let found = found.map_err(|error| not_loaded(&object, error))?;
                self.load(&object, found);
            }
            Reply::Secret(secret, values) => {
                let values = match values {
                    Ok(values) => values,
                    Err(SecretError::NotText) => return Err(Failure::SecretNotText(secret)),
                    Err(SecretError::Unread(error)) => return Err(Failure::Secret(secret, error)),
                };
                self.loaded.secrets = Some((secret, values));
            }
            Reply::Write(write, result) => return self.written(write, result.map(drop)),
            Reply::Call(Called::Create(call, result), _) => match result {
                Ok(response) => self.called(&call.about, Ok(response)),
                Err(CallError::Failed(error)) => self.called(&call.about, Err(error)),
                Err(CallError::Unreachable(error)) => return Err(Failure::Unreachable(error)),
            },
            Reply::Call(Called::Discard(_, result), _) => self.discarded(result.map(drop)),
            // An attempt for a claim makes no such calls.
            Reply::Call(Called::Delete(..) | Called::GetCapacity(..), _) => {}
        }
        Ok(())
    }

    /// Applies the reply to a [`ClaimStep`].
    ///
    /// # Errors
    /// Why the attempt ends.
    pub fn step_answered(&mut self, reply: ClaimReply) -> Result<(), Failure> {
        match reply {
            ClaimReply::Intended(prepared, intended) => {
                intended.map_err(Failure::Intend)?;
                self.intended = true;
                self.pin(&prepared);
            }
            ClaimReply::ExistingPv(name, found) => match (&self.reached, &self.pinned) {
                (Reached::Returned(..) | Reached::NameInUse(_), Some(prepared)) => {
                    self.reached = self.settlement(&Arc::clone(prepared), found);
                }
                (Reached::Start, _) if self.unsaved.is_none() => {
                    let read = |error| Failure::Read(format!("PersistentVolume {name}"), error);
                    self.loaded.existing_pv = Some(found.map_err(read)?);
                }
                (_, _) => self.compared(found),
            },
        }
        Ok(())
    }

    /// Applies `step` as if it had succeeded, without executing it; a Secret counts as empty.
    ///
    /// # Errors
    /// Why the attempt ends.
    pub fn skip(&mut self, step: Step) -> Result<(), Failure> {
        match step {
            Step::Ask(Request::Write(write)) => {
                self.answered(Reply::Write(write, Ok(Found::Written)))
            }
            Step::Ask(Request::Event(event)) => self.answered(Reply::Event(event)),
            Step::Ask(Request::Secret(secret)) => {
                self.answered(Reply::Secret(secret, Ok(Secrets::new())))
            }
            Step::Claim(ClaimStep::Intend(prepared, _)) => {
                self.step_answered(ClaimReply::Intended(prepared, Ok(())))
            }
            // The attempt needs their replies.
            Step::Ask(Request::Get(_) | Request::Call(_))
            | Step::Claim(ClaimStep::LoadExistingPv(..))
            | Step::Done(_)
            | Step::Fail(_) => Ok(()),
        }
    }

    fn written(&mut self, write: Write, result: Result<(), ApiError>) -> Result<(), Failure> {
        match (write.purpose, result) {
            (Purpose::ProtectSource, Ok(())) => self.source_protected = true,
            (Purpose::ProtectSource, Err(error)) => return self.unprotected(&write.object, error),
            (Purpose::ReleaseSource, Err(error))
                if error.refusal == Refusal::Conflict
                    && self.concluded.release_conflicts < MAX_RELEASE_CONFLICTS =>
            {
                self.concluded.release_conflicts += 1;
            }
            (Purpose::ReleaseSource, _) => self.concluded.released = true,
            (Purpose::Unselect(failure), result) => self.tried_to_unselect(failure, result.is_ok()),
            (Purpose::Save(_), Ok(())) => self.reached = Reached::Saved,
            (Purpose::Save(unsaved), Err(error)) => {
                self.unsaved = Some(unsaved);
                self.called = true;
                self.reached = match error.refusal {
                    Refusal::AlreadyExists => Reached::PvExists,
                    Refusal::Conflict
                    | Refusal::NotFound
                    | Refusal::Forbidden
                    | Refusal::Unknown
                    | Refusal::Other => Reached::Failed(Failure::Save(error)),
                };
            }
            // An attempt for a claim has no such writes.
            (Purpose::Upkeep | Purpose::Remove | Purpose::Release | Purpose::Take, _) => {}
        }
        Ok(())
    }

    fn load(&mut self, object: &Object, found: Found) {
        let loaded = &mut self.loaded;
        match found {
            Found::Snapshot(snapshot) => loaded.snapshot = Some(snapshot),
            Found::Content(content) => loaded.content = Some(content),
            Found::SourceClaim(claim) => loaded.claim = Some(claim),
            Found::SourceVolume(volume) => loaded.volume = Some(volume),
            Found::AttributesClass(class) => {
                loaded.attributes = Some((object.key().into(), class));
            }
            // An attempt for a claim reads no such object.
            Found::Written | Found::Volume(_) => {}
        }
    }

    /// A snapshot may stay without finalizer where the service account may not update it.
    fn unprotected(&mut self, source: &Object, error: ApiError) -> Result<(), Failure> {
        let (kind, tolerated) = match source {
            Object::Snapshot(_) => ("snapshot", error.refusal == Refusal::Forbidden),
            Object::Claim(_)
            | Object::Volume(_)
            | Object::Content(_)
            | Object::SourceClaim(_)
            | Object::SourceVolume(_)
            | Object::Owner(..)
            | Object::AttributesClass(_) => ("PVC", false),
        };
        if tolerated {
            self.source_protected = true;
            return Ok(());
        }
        let what = format!("{kind} {}", source.key());
        Err(Failure::Protect(what, error))
    }

    /// Makes this the pinned request.
    fn pin(&mut self, prepared: &Arc<PinnedRequest>) {
        self.pinned = Some(Arc::clone(prepared));
        let others = self.unsettled.len();
        self.unsettled
            .retain(|other| !other.asks_the_same(prepared));
        self.outcome_unknown |= self.unsettled.len() < others;
    }

    fn created(&mut self, prepared: &PinnedRequest, response: CreateVolumeResponse) -> Reached {
        let (pv_template, name) = (&prepared.pv_template, &prepared.name);
        // The new volume may be the one that the claim has, or had.
        let held = response
            .volume
            .as_ref()
            .filter(|volume| self.needless && !volume.volume_id.is_empty())
            .map(|volume| Identity::new(pv_template, name, volume));
        let reached = match pv::accept(pv_template, name, response) {
            Ok(volume) => {
                self.made = Some(volume);
                Reached::Made
            }
            Err(unusable) if unusable.discard().is_some() => Reached::Unusable(unusable),
            Err(unusable) => Reached::Failed(Failure::Unusable(unusable)),
        };
        match held {
            Some(identity) => Reached::Returned(identity, Box::new(reached)),
            None => reached,
        }
    }

    fn called(
        &mut self,
        prepared: &Arc<PinnedRequest>,
        result: Result<CreateVolumeResponse, RpcError>,
    ) {
        self.called = true;
        self.pin(prepared);
        self.reached = match result {
            Ok(response) => self.created(prepared, response),
            Err(error) if self.settling && error.code == Code::AlreadyExists => {
                Reached::NameInUse(error)
            }
            Err(error) => Reached::Failed(Failure::of_call(error, &prepared.node)),
        };
    }

    /// An unsettled request is settled when the PersistentVolume of that name refers to its volume.
    fn settlement(
        &mut self,
        prepared: &PinnedRequest,
        found: Result<Box<VolumeDetail>, ApiError>,
    ) -> Reached {
        let before = std::mem::replace(&mut self.reached, Reached::Start);
        let found = match found {
            Ok(found) => Some(found),
            Err(error) if error.is_not_found() => None,
            Err(error) => {
                let what = format!("PersistentVolume {}", prepared.name);
                return Reached::Failed(Failure::Read(what, error));
            }
        };
        let driver = prepared.pv_template.driver();
        let ours = found
            .as_ref()
            .filter(|found| found.driver() == Some(driver));
        let leaves = found.as_ref().is_some_and(|found| found.is_leaving());
        match (before, ours) {
            (Reached::Returned(volume, _), Some(held)) if !volume.is_of(held) => {
                contradicted(&volume, held)
            }
            (Reached::Returned(..) | Reached::NameInUse(_), Some(_)) if leaves => {
                Reached::Failed(Failure::Leaving(prepared.name.clone()))
            }
            (Reached::Returned(..) | Reached::NameInUse(_), Some(_)) => Reached::Settled,
            (Reached::Returned(_, next), None) if found.is_none() => *next,
            (Reached::Returned(volume, _), None) => unrecorded(&volume),
            (Reached::NameInUse(error), None) => Reached::Failed(Failure::Call(error)),
            (before, _) => before,
        }
    }

    fn met_owner(&mut self, owner: &Object, found: Result<Found, ApiError>) -> Result<(), Failure> {
        self.owner_known = true;
        let Some(prepared) = &self.pinned else {
            return Ok(());
        };
        let claim = &prepared.pv_template.claim;
        match found {
            Ok(Found::SourceClaim(found))
                if *found.uid == *claim.uid && *found.volume == *prepared.name =>
            {
                Err(Failure::Lost(prepared.name.clone()))
            }
            Err(error) if !error.is_not_found() => Err(not_loaded(owner, error)),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The volume counts as saved only if the PersistentVolume of its name refers to it.
    fn compared(&mut self, found: Result<Box<VolumeDetail>, ApiError>) {
        let Some(unsaved) = &self.unsaved else {
            return;
        };
        let volume = &unsaved.identity;
        let missing = matches!(&found, Err(error) if error.is_not_found());
        if missing && self.needless && !self.searched && matches!(self.reached, Reached::Start) {
            self.searched = true;
            return;
        }
        self.called = true;
        self.reached = match found {
            // The driver may have recreated what was deleted a moment ago.
            Ok(found) if volume.is_of(&found) && found.is_leaving() => {
                Reached::Failed(Failure::Leaving(found.name.to_string()))
            }
            Ok(found) if volume.is_of(&found) && found.name != unsaved.name => Reached::Settled,
            Ok(found) => match &self.pinned {
                Some(prepared) if found.driver() != Some(prepared.pv_template.driver()) => {
                    unrecorded(volume)
                }
                Some(prepared) if !found.is_for(&prepared.pv_template.claim.uid) => {
                    Reached::Failed(Failure::name_in_use(&found))
                }
                Some(_) | None if volume.is_of(&found) => Reached::Saved,
                Some(_) | None => contradicted(volume, &found),
            },
            Err(error) => Reached::Failed(Failure::Save(error)),
        };
    }

    fn discarded(&mut self, result: Result<(), CallError>) {
        let Reached::Unusable(unusable) = &self.reached else {
            return;
        };
        let unusable = unusable.clone();
        self.reached = Reached::Failed(match result {
            Ok(()) => Failure::Discarded(unusable),
            Err(CallError::Failed(error) | CallError::Unreachable(error)) => {
                Failure::Orphan(unusable, error)
            }
        });
    }
}

/// The existing PersistentVolume is this driver's, and refers to another volume handle. It may be the same volume with
/// another spelling of its handle: a volume in use must not be deleted.
fn contradicted(volume: &Identity, found: &VolumeDetail) -> Reached {
    Reached::Failed(Failure::Contradicted {
        volume: found.name.clone(),
        id: volume.handle().into(),
    })
}

/// The existing PersistentVolume is another driver's.
fn unrecorded(volume: &Identity) -> Reached {
    let id = volume.handle().to_owned();
    Reached::Unusable(Unusable::Unrecorded { id })
}

fn not_loaded(object: &Object, error: ApiError) -> Failure {
    match object {
        Object::SourceClaim(key) => Failure::SourceClaim(key.clone(), error),
        Object::AttributesClass(name) => Failure::AttributesClass(name.clone(), error),
        Object::Snapshot(key) => Failure::Read(format!("snapshot {key}"), error),
        Object::Content(name) => Failure::Read(format!("snapshotcontent {name}"), error),
        Object::Volume(name) | Object::SourceVolume(name) => {
            Failure::Read(format!("PersistentVolume {name}"), error)
        }
        Object::Claim(key) => Failure::Read(format!("PVC {key}"), error),
        Object::Owner(namespace, name) => Failure::Read(format!("PVC {namespace}/{name}"), error),
    }
}
