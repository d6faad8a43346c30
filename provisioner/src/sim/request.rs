//! Requests of attempts on claims reach the server, and their answers the caches. What a write must
//! not do is noticed here.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed"
)]

use std::sync::Arc;

use super::mutant::Mutant;
use super::process::{Process, keep};
use super::run::World;
use super::server::{Versioned, refusal};
use super::watch::key as key_of;
use crate::model::{Claim, Content, SnapshotRef, Text, VolumeDetail};
use crate::plan::claim::{Answer, Step};
use crate::plan::edit::{Edit, Kind};
use crate::plan::memory::Unsaved;
use crate::plan::outcome::{ApiError, Refusal};

/// What a write returned.
pub(super) enum Written {
    Claim(Versioned<Claim>),
    Volume(Versioned<VolumeDetail>),
}

/// Key of the one value of the Secret.
const SECRET_KEY: &str = "password";

impl World {
    /// The server applies what `step` asks for, or answers it.
    pub(super) fn apply_claim(&mut self, step: &Step) -> (Answer, Option<Written>) {
        let written = match step {
            Step::Unselect(edit, _) => {
                self.check_moved(edit);
                let before = self.server.version;
                let written = self.server.edit_claim(edit).map(Written::Claim);
                // A mutant that believes its cache when there was nothing to write.
                let kept = self.mutant != Mutant::Spins || self.server.version != before;
                written.map(|written| Some(written).filter(|_| kept))
            }
            Step::ReleaseSource(_) if self.mutant.keeps_snapshots() => Ok(None),
            Step::ProtectSource(edit) | Step::ReleaseSource(edit) => {
                let written = self.server.edit(edit);
                written.map(|written| written.map(Written::Claim))
            }
            Step::Save(unsaved) => self.save(unsaved).map(Some),
            step => {
                let read = self.read(step);
                let missing = || Answer::Refused(refusal(Refusal::NotFound));
                return (read.unwrap_or_else(missing), None);
            }
        };
        match written {
            Ok(written) => (Answer::Done, written),
            Err(error) => (Answer::Refused(error), None),
        }
    }

    /// A GET.
    pub(super) fn read(&self, step: &Step) -> Option<Answer> {
        let server = &self.server;
        Some(match step {
            Step::LoadSecret(_) => {
                let values = [(SECRET_KEY.to_owned(), "x".to_owned())];
                Answer::Secret(server.secret.then(|| values.into_iter().collect())?)
            }
            Step::LoadSnapshot(_, name) => {
                Answer::Snapshot(Box::new(server.snapshots.get(name)?.clone()))
            }
            Step::LoadContent(name) => {
                let mut snapshots = server.snapshots.values();
                let snapshot = snapshots.find(|held| held.content.as_ref() == Some(name))?;
                Answer::Content(Box::new(Content {
                    name: name.clone(),
                    driver: "test-driver".into(),
                    snapshot: SnapshotRef {
                        namespace: snapshot.namespace.clone(),
                        name: snapshot.name.clone(),
                        uid: snapshot.uid.clone(),
                    },
                    handle: Some(snapshot.uid.clone()),
                    ..Content::default()
                }))
            }
            Step::LoadSourceClaim(namespace, name) | Step::LoadOwner(namespace, name) => {
                let name = format!("{namespace}/{name}");
                Answer::SourceClaim(Box::new(server.claims.get(&*name)?.1.clone()))
            }
            Step::LoadNamesake(name, Some(volume)) => {
                let mut volumes = server.volumes.values().map(|(_, volume)| volume);
                let has = |found: &&VolumeDetail| volume.is_of(found);
                let named = || server.volumes.get(name).map(|(_, volume)| volume);
                let found = volumes.find(has).or_else(named)?;
                Answer::PersistentVolume(Box::new(found.clone()))
            }
            Step::LoadSourceVolume(name) | Step::LoadNamesake(name, None) => {
                Answer::PersistentVolume(Box::new(server.volumes.get(name)?.1.clone()))
            }
            _ => unreachable!("no request"),
        })
    }

    fn save(&mut self, unsaved: &Unsaved) -> Result<Written, ApiError> {
        let saved = self.server.create_volume(&unsaved.object)?;
        self.excused.remove(&*unsaved.name);
        Ok(Written::Volume(saved))
    }

    /// Another node is selected only when nothing is made for the claim any more or the
    /// PersistentVolume is there.
    fn check_moved(&mut self, edit: &Edit) {
        if !self.is_there(edit) {
            return;
        }
        let name = format!("pvc-{}", edit.uid);
        let known = self.server.volumes.contains_key(&*name) || self.excused.contains(&name);
        let owed = self.server.intents().any(|uid| *uid == *edit.uid) || { self.processes() }
            .any(|process| process.memory.owes(&edit.uid));
        if !known && !owed && self.drivers().any(|driver| driver.may_have(&name)) {
            self.complain(format!("{name} moved while it may be made"));
        }
    }

    /// Whether the claim that is to be changed is that one.
    fn is_there(&self, edit: &Edit) -> bool {
        let name = format!("{}/{}", edit.namespace, edit.name);
        let claim = self.server.claims.get(&*name);
        edit.kind == Kind::Claim && claim.is_some_and(|(_, claim)| claim.uid == edit.uid)
    }
}

impl Process {
    /// Takes the result of an own write into the caches; `None` is a failure.
    pub(super) fn absorb_claim(&mut self, index: usize, step: &Step, written: Option<Written>) {
        match step {
            Step::Unselect(edit, _) | Step::ProtectSource(edit) if edit.kind == Kind::Claim => {
                let name: Text = format!("{}/{}", edit.namespace, edit.name).into();
                let written = match written {
                    Some(Written::Claim(written)) => Some(written),
                    Some(Written::Volume(_)) | None => None,
                };
                let running = &mut self.running[index];
                if let Some((_, object)) = &written
                    && object.uid == running.key.uid
                {
                    running.current = Arc::new(object.clone());
                }
                self.absorb_written_claim(&name, written);
            }
            Step::Save(unsaved) => {
                let slots = &mut self.volumes.slots;
                let change = match written {
                    Some(Written::Volume((version, object)))
                        if !self.mutant.forgets_own_writes() =>
                    {
                        let kept = self.mutant.keeps(&object);
                        slots.write_answered(&key_of(&unsaved.name), kept, version)
                    }
                    Some(_) | None => slots.write_failed(&key_of(&unsaved.name)),
                };
                if let Some(change) = change {
                    self.volume_changed(change);
                }
                // Never to be deleted: its finalizer may go.
                self.look_at_volume(&unsaved.name);
            }
            _ => {}
        }
    }

    /// The answer to an own write of a claim that was announced to the cache.
    pub(super) fn absorb_written_claim(&mut self, name: &Text, written: Option<Versioned<Claim>>) {
        let forgets = self.mutant.forgets_own_writes();
        let kept = written.and_then(|(version, object)| Some((version, keep(&object)?)));
        let slots = &mut self.claims.slots;
        let change = match kept.filter(|_| !forgets) {
            Some((version, kept)) => slots.write_answered(&key_of(name), kept, version),
            None => slots.write_failed(&key_of(name)),
        };
        if let Some(change) = change {
            self.claim_changed(change);
        }
    }
}
