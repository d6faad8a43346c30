//! What scripts ask for: objects, from the caches or from the API server.

use std::sync::Arc;

use sidecar::snapshot::SNAPSHOT_IN_USE;

use super::Informers;
use super::attempt::{Flow, Log};
use super::in_flight::{GroupHandle, InFlightState};
use super::request::{ApiError, Object, read};
use crate::model::{Claim, Content, Group, GroupContent, Snapshot, Text, Volume};

/// The input of a script.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    /// The caches.
    pub(super) informers: &'a (dyn Informers + 'static),
    /// The process's state beyond the caches.
    pub(super) in_flight: &'a InFlightState,
    /// The attempt so far.
    pub(super) log: &'a Log,
}

impl<'a> Ask<'a> {
    /// The result of a read of the object in this attempt.
    pub(super) fn read(self, object: &Object) -> Flow<Result<&'a Option<Text>, &'a ApiError>> {
        self.log.found(object).map_or_else(|| read(object), Ok)
    }

    /// Reads the object, unless this attempt has: the cache may be late.
    pub(super) fn refresh(self, object: &Object) -> Flow {
        self.read(object).map(drop)
    }

    /// The VolumeSnapshot with this key; `None` if the API server has none.
    pub(super) fn snapshot(self, key: &Text) -> Flow<Option<Arc<Snapshot>>> {
        self.sure(self.informers.snapshot(key), &Object::Snapshot(key.clone()))
    }

    /// The content of this name; `None` if the API server has none.
    pub(super) fn content(self, name: &Text) -> Flow<Option<Arc<Content>>> {
        self.sure(self.informers.content(name), &Object::Content(name.clone()))
    }

    /// The VolumeGroupSnapshot with this key; `None` if the API server has none. The cache is empty where groups are not
    /// served.
    pub(super) fn group(self, key: &Text) -> Flow<Option<Arc<Group>>> {
        let object = Object::Group(key.clone());
        let follows = self.informers.groups() || self.log.found(&object).is_some();
        self.sure(self.informers.group(key).filter(|_| follows), &object)
    }

    /// The group's content of this name; `None` if the API server has none.
    pub(super) fn group_content(self, name: &Text) -> Flow<Option<Arc<GroupContent>>> {
        let known = self.informers.group_content(name);
        self.sure(known, &Object::GroupContent(name.clone()))
    }

    /// The claim with this key; `None` if the API server has none.
    pub(super) fn claim(self, key: &Text) -> Flow<Option<Arc<Claim>>> {
        self.sure(self.informers.claim(key), &Object::Claim(key.clone()))
    }

    /// The volume of this name, or why it cannot be read.
    pub(super) fn volume(self, name: &Text) -> Flow<Result<Arc<Volume>, String>> {
        if let Some(volume) = self.informers.volume(name) {
            return Ok(Ok(volume));
        }
        let read = self.read(&Object::Volume(name.clone()))?;
        let missing = |_| format!("persistentvolumes {name:?} not found");
        Ok(Err(read.map_or_else(ToString::to_string, missing)))
    }

    /// Prefers the API server's reply in this attempt to the cache, which may be late.
    pub(super) fn sure<T>(self, known: Option<Arc<T>>, object: &Object) -> Flow<Option<Arc<T>>> {
        match (self.log.found(object), known) {
            (Some(Err(_)), _) => Ok(None),
            (None, None) => read(object),
            (Some(Ok(_)) | None, known) => Ok(known),
        }
    }

    /// Whether the API server has reported in this attempt that the object does not exist.
    pub(super) fn is_gone(self, object: &Object) -> bool {
        self.log.found(object).is_some_and(|found| found.is_err())
    }

    /// The group with this handle that a VolumeSnapshot belongs to: its owner, or the group that its status
    /// names, since several groups of a namespace may have the same handle. The group and its content are
    /// bound to each other.
    pub(super) fn group_of(self, of: &Snapshot, handle: &GroupHandle) -> Option<Arc<Group>> {
        if !self.informers.groups() {
            return None;
        }
        let contents = self.in_flight.groups.of(handle);
        let contents = contents.filter_map(|name| self.informers.group_content(name));
        let mut groups = contents.filter_map(|content| {
            let group = self.informers.group(&content.group_key())?;
            content.is_bound_to(&group).then_some(group)
        });
        groups.find(|group| {
            let named = match of.owner() {
                Some((uid, _)) => *uid == group.uid,
                None => of.group().is_none_or(|name| *name == group.name),
            };
            named && of.namespace == group.namespace
        })
    }

    /// Keys of the claims that are being restored from a VolumeSnapshot, or can be. A claim of another
    /// namespace counts once the provisioner holds the VolumeSnapshot for it: only the provisioner knows
    /// whether there is a grant, and without one the claim stays pending for ever.
    pub(super) fn restoring(self, snapshot: &Snapshot) -> Vec<Text> {
        if !snapshot.can_be_restored() {
            return Vec::new();
        }
        let is_held = snapshot.holds(SNAPSHOT_IN_USE);
        let counts = |claim: &&Text| {
            let namespace = claim.split_once('/').map(|(namespace, _)| namespace);
            is_held || namespace == Some(&*snapshot.namespace)
        };
        let claims = self.in_flight.restores.of(&snapshot.key());
        claims.filter(counts).cloned().collect()
    }
}
