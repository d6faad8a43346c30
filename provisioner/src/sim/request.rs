//! Requests of attempts on claims reach the server, and their answers the caches. What a write must
//! not do is noticed here.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed"
)]

use super::driver::is_same;
use super::mutant::Mutant;
use super::process::Written;
use super::run::World;
use super::server::refusal;
use super::volume::handle;
use crate::model::{Content, SnapshotRef, Volume, VolumeDetail};
use crate::plan::claim::{Answer, Step};
use crate::plan::edit::{Edit, Kind};
use crate::plan::in_flight::Unsaved;
use crate::plan::outcome::{ApiError, Refusal};

/// Key of the one value of the Secret.
const SECRET_KEY: &str = "password";

impl World {
    /// The server applies what `step` asks for, or answers it.
    pub(super) fn apply_claim(&mut self, step: &Step) -> (Answer, Option<Written>) {
        let written = match step {
            Step::Unselect(edit, _) => {
                self.check_moved(edit);
                let written = self.server.edit_claim(edit).map(Written::Claim);
                written.map(|written| Some(written).filter(|_| self.mutant != Mutant::Spins))
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
                return (read.unwrap_or_else(missing), self.found(step));
            }
        };
        match written {
            Ok(written) => (Answer::Done, written),
            Err(error) => (Answer::Refused(error), None),
        }
    }

    /// The PersistentVolume that a GET by its name shows, which the cache takes in.
    fn found(&self, step: &Step) -> Option<Written> {
        let Step::LoadNamesake(name, _) = step else {
            return None;
        };
        let found = self.server.volumes.get(name).cloned()?;
        let ending = found.1.deleting || matches!(found.1.clone().keep(), Volume::Deletable(_));
        let kept = !ending && self.mutant != Mutant::ForgetsReads;
        kept.then_some(Written::Volume(found))
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
        // A driver whose names are local may have another one under the name, which stays given up.
        let name = &*unsaved.name;
        let other = |id: &String| handle(&saved.1).is_none_or(|held| !is_same(held, id));
        if !(self.drivers()).any(|driver| driver.makes(name) || driver.named(name).any(other)) {
            self.excused.remove(name);
        }
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
            .any(|process| process.in_flight().owes(&edit.uid));
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
