//! Requests of attempts on claims reach the server, and their replies the caches. Checks the writes.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed"
)]

use std::sync::Arc;

use serde_json::Value;
use sidecar::controller::request::{Body, Object as _, SecretError};
use sidecar_testkit::sim::watch::Versioned;

use super::mutant::Mutant;
use super::process::Written;
use super::run::World;
use super::server::refusal;
use super::step::name_of;
use super::volume::handle;
use crate::model::{Content, SnapshotRef, Text, Volume, VolumeDetail};
use crate::plan::claim::{ClaimReply, ClaimStep};
use crate::plan::outcome::{ApiError, Refusal};
use crate::plan::request::{Found, Object, Purpose, Reply, Request, Write};

/// Key of the one value of the Secret.
const SECRET_KEY: &str = "password";

impl World {
    /// The server applies the request.
    pub(super) fn apply_request(&mut self, request: Request) -> (Reply, Option<Written>) {
        let write = match request {
            Request::Write(write) => write,
            Request::Get(object) => {
                let found = self.read(&object);
                return (Reply::Get(object, found.ok_or_else(not_found)), None);
            }
            Request::Secret(secret) => {
                let values = match self.server.secret {
                    true => Ok([(SECRET_KEY.to_owned(), "x".to_owned())].into()),
                    // A mutant that needs the Secret.
                    false if self.mutant == Mutant::NeedsSecrets => Err(SecretError::NotText),
                    false => Err(SecretError::Unread(not_found())),
                };
                return (Reply::Secret(secret, values), None);
            }
            Request::Call(_) | Request::Event(_) => unreachable!("the server has no part in it"),
        };
        let unselects = matches!(write.purpose, Purpose::Unselect(_));
        match self.write(&write) {
            Ok(written) => {
                let found = match &written {
                    Some(Written::Volume((_, object))) => {
                        Found::Volume(Arc::new(self.mutant.keeps(object)))
                    }
                    Some(Written::Claim(_)) | None => Found::Written,
                };
                let written = written.filter(|_| !(unselects && self.mutant == Mutant::Spins));
                (Reply::Write(write, Ok(found)), written)
            }
            Err(error) => (Reply::Write(write, Err(error)), None),
        }
    }

    fn write(&mut self, write: &Write) -> Result<Option<Written>, ApiError> {
        let uid = write.uid.as_ref();
        let volume = match (&write.object, &write.body) {
            (Object::Volume(name), Body::Patch(_, patch)) => {
                self.patch_volume(name, uid, patch.body())
            }
            (Object::Volume(name), Body::Delete(_)) => self.remove_volume(name, uid),
            (Object::Volume(name), Body::Create(object)) => self.save(name, object),
            (Object::Claim(key), Body::Edit(edit)) => {
                let written = match write.purpose {
                    Purpose::ReleaseSource => self.free(write),
                    Purpose::Take if self.mutant.takes_everything() => {
                        self.server.take(key, uid, edit)
                    }
                    _ => {
                        self.check_moved(write);
                        self.server.edit_claim(key, uid, edit)
                    }
                };
                return written.map(|written| Some(Written::Claim(written)));
            }
            (Object::Snapshot(key), Body::Edit(edit)) => {
                let released = matches!(write.purpose, Purpose::ReleaseSource);
                if !(released && self.mutant.keeps_snapshots()) {
                    self.server.edit_snapshot(key, uid, edit)?;
                }
                return Ok(None);
            }
            _ => unreachable!("nothing is written so"),
        };
        volume.map(|volume| Some(Written::Volume(volume)))
    }

    /// The server answers a search.
    pub(super) fn apply_claim(&self, step: ClaimStep) -> (ClaimReply, Option<Written>) {
        let server = &self.server;
        match step {
            ClaimStep::LoadExistingPv(name, volume) => {
                let mut volumes = server.volumes.values().map(|(_, volume)| volume);
                let has = |found: &&VolumeDetail| {
                    let volume = volume.as_ref();
                    volume.is_some_and(|volume| volume.is_of(found))
                };
                let named = || server.volumes.get(&name).map(|(_, volume)| volume);
                let found = volumes.find(has).or_else(named);
                let found = found.map(|found| Box::new(found.clone()));
                let written = self.seen(&name);
                let found = found.ok_or_else(not_found);
                (ClaimReply::ExistingPv(name, found), written)
            }
            ClaimStep::Intend(..) => unreachable!("the journal's"),
        }
    }

    /// The PersistentVolume from a GET by name, which the cache takes in.
    fn seen(&self, name: &Text) -> Option<Written> {
        let found = self.server.volumes.get(name).cloned()?;
        let ending = found.1.deleting || matches!(found.1.clone().keep(), Volume::Deletable(_));
        let kept = !ending && self.mutant != Mutant::ForgetsReads;
        kept.then_some(Written::Volume(found))
    }

    /// A GET, or the LIST of one claim.
    fn read(&self, object: &Object) -> Option<Found> {
        let server = &self.server;
        Some(match object {
            Object::Snapshot(key) => {
                Found::Snapshot(Box::new(server.snapshots.get(name_of(key))?.clone()))
            }
            Object::Content(name) => {
                let mut snapshots = server.snapshots.values();
                let snapshot = snapshots.find(|held| held.content.as_ref() == Some(name))?;
                Found::Content(Box::new(Content {
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
            Object::SourceClaim(key) => {
                Found::SourceClaim(Box::new(server.claims.get(key)?.1.clone()))
            }
            Object::Owner(namespace, name) => {
                let (_, owner) = server.claims.get(&*format!("{namespace}/{name}"))?;
                Found::SourceClaim(Box::new(owner.clone()))
            }
            Object::SourceVolume(name) => {
                Found::SourceVolume(Box::new(server.volumes.get(name)?.1.clone()))
            }
            _ => unreachable!("nothing else is read"),
        })
    }

    fn save(&mut self, name: &str, object: &Value) -> Result<Versioned<VolumeDetail>, ApiError> {
        let saved = self.server.create_volume(object)?;
        // Another volume of the same name stays given up.
        let id = handle(&saved.1).unwrap_or_default();
        if !self.drivers().any(|driver| driver.has_elsewhere(name, id)) {
            self.excused.remove(name);
        }
        Ok(saved)
    }

    /// Checks that another node is selected only if no volume is being made for the claim any more, or its
    /// PersistentVolume exists.
    fn check_moved(&mut self, write: &Write) {
        let (Purpose::Unselect(_), Some(uid)) = (&write.purpose, &write.uid) else {
            return;
        };
        let held = self.server.claims.get(write.object.key());
        if held.is_none_or(|(_, claim)| claim.uid != *uid) {
            return;
        }
        let name = format!("pvc-{uid}");
        let known = self.server.volumes.contains_key(&*name) || self.excused.contains(&name);
        let unsettled = self.server.intents().any(|held| *held == **uid) || { self.processes() }
            .any(|process| process.in_flight().has_unknown_outcome(uid));
        if !known && !unsettled && self.drivers().any(|driver| driver.may_have(&name)) {
            self.complain(format!("{name} moved while it may be made"));
        }
    }
}

fn not_found() -> ApiError {
    refusal(Refusal::NotFound)
}
