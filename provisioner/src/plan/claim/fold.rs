//! What the answer to a step means for the attempt.

use std::sync::Arc;

use csi_proto::csi::CreateVolumeResponse;
use tonic::Code;

use super::{Announcement, Answer, Attempt, Failure, Reached, Step};
use crate::model::VolumeDetail;
use crate::plan::edit::{Edit, Kind};
use crate::plan::identity::Identity;
use crate::plan::in_flight::Asked;
use crate::plan::outcome::{ApiError, Refusal};
use crate::plan::pv::{self, Unusable};
use crate::plan::request::PinnedRequest;

impl Attempt {
    /// Takes in what came of `step`.
    ///
    /// # Errors
    /// The attempt ends: says why.
    pub fn fold(&mut self, step: &Step, answer: Answer) -> Result<(), Failure> {
        match (step, answer) {
            (Step::Announce(Announcement::Provisioning), _) => self.announced = true,
            (Step::Announce(Announcement::Left(_)), _) => self.left = None,
            (Step::Announce(_), _) => self.concluded.announced = true,
            (Step::ProtectSource(_), Answer::Done) => self.source_protected = true,
            (Step::ProtectSource(edit), Answer::Refused(error)) => {
                return self.unprotected(edit, error);
            }
            (Step::Intend(prepared), Answer::Done) => {
                self.intended = true;
                self.freeze(prepared);
            }
            (Step::Intend(_), Answer::Unwritable(error)) => return Err(Failure::Intend(error)),
            (Step::Create(..), Answer::Unreachable(error)) => {
                return Err(Failure::Unreachable(error));
            }
            (Step::Create(prepared, _), answer) => self.answered(prepared, answer),
            (Step::Discard(..), answer) => self.discarded(answer),
            (Step::Save(_), Answer::Done) => self.reached = Reached::Saved,
            (Step::Save(unsaved), Answer::Refused(error)) => {
                self.unsaved = Some(unsaved.clone());
                self.called = true;
                self.reached = match error.refusal {
                    Refusal::AlreadyExists => Reached::Named,
                    Refusal::Conflict
                    | Refusal::NotFound
                    | Refusal::Forbidden
                    | Refusal::Unknown
                    | Refusal::Other => Reached::Failed(Failure::Save(error)),
                };
            }
            (Step::LoadNamesake(..), answer) => match (&self.reached, &self.frozen, answer) {
                (Reached::Held(..) | Reached::Taken(_), Some(prepared), answer) => {
                    self.reached = self.repaid(&Arc::clone(prepared), answer);
                }
                (Reached::Start, _, Answer::PersistentVolume(found)) if self.unsaved.is_none() => {
                    self.loaded.namesake = Some(found);
                }
                (Reached::Start, _, Answer::Refused(error)) if self.unsaved.is_none() => {
                    return Err(not_loaded(step, error));
                }
                (_, _, answer) => self.compared(answer),
            },
            (Step::LoadOwner(..), answer) => return self.met_owner(answer),
            (Step::ReleaseSource(_), _) => self.concluded.released = true,
            (Step::Unselect(_, failure), answer) => self.tried_to_unselect(failure, &answer),
            (step, answer) => return self.load(step, answer),
        }
        Ok(())
    }

    fn load(&mut self, step: &Step, answer: Answer) -> Result<(), Failure> {
        let loaded = &mut self.loaded;
        match (step, answer) {
            (_, Answer::Snapshot(snapshot)) => loaded.snapshot = Some(snapshot),
            (_, Answer::Content(content)) => loaded.content = Some(content),
            (_, Answer::SourceClaim(claim)) => loaded.claim = Some(claim),
            (_, Answer::PersistentVolume(volume)) => loaded.volume = Some(volume),
            (Step::LoadAttributesClass(name), Answer::AttributesClass(class)) => {
                loaded.attributes = Some((name.clone(), class));
            }
            (Step::LoadSecret(reference), Answer::Secret(secrets)) => {
                loaded.secrets = Some((reference.clone(), secrets));
            }
            (Step::LoadSecret(reference), Answer::SecretNotText) => {
                return Err(Failure::SecretNotText(reference.clone()));
            }
            (step, Answer::Refused(error)) => return Err(not_loaded(step, error)),
            // No step gets an answer of another kind; the shell's types see to it.
            (
                _,
                Answer::Done
                | Answer::AttributesClass(_)
                | Answer::Secret(_)
                | Answer::SecretNotText
                | Answer::Created(_)
                | Answer::Failed(_)
                | Answer::Unwritable(_)
                | Answer::Unreachable(_),
            ) => {}
        }
        Ok(())
    }

    /// A snapshot may stay unprotected where the service account may not update it.
    fn unprotected(&mut self, edit: &Edit, error: ApiError) -> Result<(), Failure> {
        let (kind, tolerated) = match edit.kind {
            Kind::Snapshot => ("snapshot", error.refusal == Refusal::Forbidden),
            Kind::Claim => ("PVC", false),
        };
        if tolerated {
            self.source_protected = true;
            return Ok(());
        }
        let what = format!("{kind} {}/{}", edit.namespace, edit.name);
        Err(Failure::Protect(what, error))
    }

    /// From here on this is what is asked.
    fn freeze(&mut self, prepared: &Arc<PinnedRequest>) {
        self.frozen = Some(Arc::clone(prepared));
        let others = self.owed.len();
        self.owed.retain(|other| !other.asks_the_same(prepared));
        self.doubted |= self.owed.len() < others;
    }

    fn created(&mut self, prepared: &PinnedRequest, response: CreateVolumeResponse) -> Reached {
        let (blueprint, name) = (&prepared.blueprint, &prepared.name);
        // It may be the one that the claim has, or had.
        let held = response
            .volume
            .as_ref()
            .filter(|volume| self.needless && !volume.volume_id.is_empty())
            .map(|volume| Identity::new(blueprint, name, volume));
        let reached = match pv::accept(blueprint, name, response) {
            Ok(volume) => {
                self.made = Some(volume);
                Reached::Made
            }
            Err(unusable) if unusable.discard().is_some() => Reached::Bad(unusable),
            Err(unusable) => Reached::Failed(Failure::Unusable(unusable)),
        };
        match held {
            Some(identity) => Reached::Held(identity, Box::new(reached)),
            None => reached,
        }
    }

    fn answered(&mut self, prepared: &Arc<PinnedRequest>, answer: Answer) {
        self.called = true;
        self.freeze(prepared);
        self.reached = match answer {
            Answer::Created(response) => self.created(prepared, *response),
            Answer::Failed(error) if self.repaying && error.code == Code::AlreadyExists => {
                Reached::Taken(error)
            }
            Answer::Failed(error) => Reached::Failed(Failure::of_call(error, &prepared.node)),
            // No step gets an answer of another kind; the shell's types see to it.
            Answer::Done
            | Answer::Refused(_)
            | Answer::Snapshot(_)
            | Answer::Content(_)
            | Answer::SourceClaim(_)
            | Answer::PersistentVolume(_)
            | Answer::AttributesClass(_)
            | Answer::Secret(_)
            | Answer::SecretNotText
            | Answer::Unwritable(_)
            | Answer::Unreachable(_) => return,
        };
    }

    /// An unsettled request is settled when the PersistentVolume of that name refers to its volume.
    fn repaid(&mut self, prepared: &PinnedRequest, answer: Answer) -> Reached {
        let before = std::mem::replace(&mut self.reached, Reached::Start);
        let found = match answer {
            Answer::PersistentVolume(found) => Some(found),
            Answer::Refused(error) if !error.is_not_found() => {
                let what = format!("PersistentVolume {}", prepared.name);
                return Reached::Failed(Failure::Read(what, error));
            }
            // No step gets an answer of another kind; the shell's types see to it.
            Answer::Refused(_)
            | Answer::Done
            | Answer::Snapshot(_)
            | Answer::Content(_)
            | Answer::SourceClaim(_)
            | Answer::AttributesClass(_)
            | Answer::Secret(_)
            | Answer::SecretNotText
            | Answer::Unwritable(_)
            | Answer::Created(_)
            | Answer::Failed(_)
            | Answer::Unreachable(_) => None,
        };
        let driver = prepared.blueprint.driver();
        let ours = found
            .as_ref()
            .filter(|found| found.driver() == Some(driver));
        let leaves = found.as_ref().is_some_and(|found| found.is_leaving());
        match (before, ours) {
            (Reached::Held(volume, _), Some(held)) if !volume.is_of(held) => {
                contradicted(&volume, held)
            }
            (Reached::Held(..) | Reached::Taken(_), Some(_)) if leaves => {
                Reached::Failed(Failure::Leaving(prepared.name.clone()))
            }
            (Reached::Held(..) | Reached::Taken(_), Some(_)) => Reached::Repaid,
            (Reached::Held(_, next), None) if found.is_none() => *next,
            (Reached::Held(volume, _), None) => unrecorded(&volume),
            (Reached::Taken(error), None) => Reached::Failed(Failure::Call(error)),
            (before, _) => before,
        }
    }

    fn met_owner(&mut self, answer: Answer) -> Result<(), Failure> {
        self.owner_known = true;
        let Some(prepared) = &self.frozen else {
            return Ok(());
        };
        let claim = &prepared.blueprint.claim;
        match answer {
            Answer::SourceClaim(found)
                if *found.uid == *claim.uid && *found.volume == *prepared.name =>
            {
                Err(Failure::Lost(prepared.name.clone()))
            }
            Answer::Refused(error) if !error.is_not_found() => {
                let what = format!("PVC {}/{}", claim.namespace, claim.name);
                Err(Failure::Read(what, error))
            }
            // No step gets an answer of another kind; the shell's types see to it.
            Answer::SourceClaim(_)
            | Answer::Refused(_)
            | Answer::Done
            | Answer::Snapshot(_)
            | Answer::Content(_)
            | Answer::PersistentVolume(_)
            | Answer::AttributesClass(_)
            | Answer::Secret(_)
            | Answer::SecretNotText
            | Answer::Unwritable(_)
            | Answer::Created(_)
            | Answer::Failed(_)
            | Answer::Unreachable(_) => Ok(()),
        }
    }

    /// The volume counts as saved only if it is what the PersistentVolume of its name says.
    fn compared(&mut self, answer: Answer) {
        let Some(unsaved) = &self.unsaved else {
            return;
        };
        let volume = &unsaved.identity;
        let missing = matches!(&answer, Answer::Refused(error) if error.is_not_found());
        if missing && self.needless && !self.sought && matches!(self.reached, Reached::Start) {
            self.sought = true;
            return;
        }
        self.called = true;
        self.reached = match answer {
            // The driver may have made anew what was deleted a moment ago.
            Answer::PersistentVolume(found) if volume.is_of(&found) && found.is_leaving() => {
                Reached::Failed(Failure::Leaving(found.name.to_string()))
            }
            Answer::PersistentVolume(found)
                if volume.is_of(&found) && found.name != unsaved.name =>
            {
                Reached::Repaid
            }
            Answer::PersistentVolume(found) => match &self.frozen {
                Some(prepared) if found.driver() != Some(prepared.blueprint.driver()) => {
                    unrecorded(volume)
                }
                Some(prepared) if !found.is_for(&prepared.blueprint.claim.uid) => {
                    Reached::Failed(Failure::name_taken(&found))
                }
                Some(_) | None if volume.is_of(&found) => Reached::Saved,
                Some(_) | None => contradicted(volume, &found),
            },
            Answer::Refused(error) => Reached::Failed(Failure::Save(error)),
            // No step gets an answer of another kind; the shell's types see to it.
            Answer::Done
            | Answer::Snapshot(_)
            | Answer::Content(_)
            | Answer::SourceClaim(_)
            | Answer::AttributesClass(_)
            | Answer::Secret(_)
            | Answer::SecretNotText
            | Answer::Unwritable(_)
            | Answer::Created(_)
            | Answer::Failed(_)
            | Answer::Unreachable(_) => return,
        };
    }

    fn discarded(&mut self, answer: Answer) {
        let Reached::Bad(unusable) = &self.reached else {
            return;
        };
        let unusable = unusable.clone();
        self.reached = Reached::Failed(match answer {
            Answer::Failed(error) | Answer::Unreachable(error) => Failure::Orphan(unusable, error),
            Answer::Done
            | Answer::Refused(_)
            | Answer::Snapshot(_)
            | Answer::Content(_)
            | Answer::SourceClaim(_)
            | Answer::PersistentVolume(_)
            | Answer::AttributesClass(_)
            | Answer::Secret(_)
            | Answer::SecretNotText
            | Answer::Unwritable(_)
            | Answer::Created(_) => Failure::Discarded(unusable),
        });
    }
}

/// The PersistentVolume that there is, is one of this driver, and names another volume. It may be the same
/// one, spelled differently: what is in use may not be deleted.
fn contradicted(volume: &Identity, found: &VolumeDetail) -> Reached {
    Reached::Failed(Failure::Contradicted {
        volume: found.name.clone(),
        id: volume.handle().into(),
    })
}

/// The PersistentVolume that there is, is another driver's.
fn unrecorded(volume: &Identity) -> Reached {
    let id = volume.handle().to_owned();
    Reached::Bad(Unusable::Unrecorded { id })
}

fn not_loaded(step: &Step, error: ApiError) -> Failure {
    let read = |what: String, error| Failure::Read(what, error);
    match step {
        Step::LoadSnapshot(namespace, name) => read(format!("snapshot {namespace}/{name}"), error),
        Step::LoadContent(name) => read(format!("snapshotcontent {name}"), error),
        Step::LoadSourceClaim(namespace, name) => {
            Failure::SourceClaim(format!("{namespace}/{name}").into(), error)
        }
        Step::LoadSourceVolume(name) => read(format!("PersistentVolume {name}"), error),
        Step::LoadNamesake(name, _) => read(format!("PersistentVolume {name}"), error),
        Step::LoadSecret(reference) => Failure::Secret(reference.clone(), error),
        Step::LoadAttributesClass(name) => Failure::AttributesClass(name.clone(), error),
        // These are not loads.
        Step::Announce(_)
        | Step::ProtectSource(_)
        | Step::Intend(_)
        | Step::LoadOwner(..)
        | Step::Create(..)
        | Step::Discard(..)
        | Step::Save(_)
        | Step::ReleaseSource(_)
        | Step::Unselect(..)
        | Step::Done(_)
        | Step::Fail(_) => read("an object".to_owned(), error),
    }
}
