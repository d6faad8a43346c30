//! The input of a decision: the newest known state of the object, of everything it refers to, and the replies
//! of this attempt beyond the caches.

use std::sync::Arc;

use sidecar::snapshot::SNAPSHOT_IN_USE;

use super::Informers;
use super::complaint::{Complaint, RequeueTrigger};
use super::in_flight::{GroupHandle, InFlightState};
use super::request::{ApiError, Object, Request, read};
use crate::model::{Claim, Content, Group, GroupContent, Snapshot, Text, Volume};

/// The next step of an attempt.
pub enum Next {
    /// Nothing is left to do.
    Done,
    /// Send this request.
    Ask(Box<Request>),
    /// Wait until the running write of this claim has ended.
    Wait(Text),
    /// Wait for this change, without an event.
    Await(RequeueTrigger),
    /// Fail.
    Fail(Box<Complaint>),
}

/// The purpose of a write: determines how its failure is reported, and which events its success gets.
#[derive(Clone, Debug, PartialEq)]
pub enum Purpose {
    /// Adds a VolumeSnapshot's finalizers.
    Finalizers,
    /// Writes the driver's default class to a VolumeSnapshot.
    DefaultClass,
    /// Adds our finalizer to a claim.
    Protect,
    /// Removes our finalizer from a claim.
    Release,
    /// Creates a content.
    Create {
        /// Whether no node can reach its volume.
        nowhere: bool,
    },
    /// Binds a pre-provisioned content.
    Bind,
    /// Marks a content whose VolumeSnapshot is being deleted.
    Announce,
    /// Deletes a content.
    Delete,
    /// Makes a VolumeSnapshot's status follow its content's.
    Status(Progress),
    /// Removes the finalizers of a VolumeSnapshot that is being deleted.
    Unprotect,
    /// Writes a failure to the status.
    Complain(Box<Complaint>),
    /// Adds the finalizer to a content that the sidecar removes.
    ContentFinalizer,
    /// Makes a member of a group, or deletes it with the group.
    Member,
}

/// Progress that a status shows for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The snapshot was taken.
    pub created: bool,
    /// The snapshot can be used.
    pub ready: bool,
}

/// The reply to a read of an object that may not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Learnt {
    /// The API server has no such object, or refused the read.
    Unread(ApiError),
    /// The object was read; carries the JSON of a claim, or the names of several.
    Read(Option<Text>),
}

/// The input of a decision; see the module.
pub struct View<'a> {
    /// The caches.
    pub informers: &'a (dyn Informers + 'static),
    /// The process's state beyond the caches.
    pub in_flight: &'a InFlightState,
    /// The objects that this attempt has read.
    pub learnt: &'a [(Object, Learnt)],
}

impl View<'_> {
    /// The latest read of an object in this attempt.
    #[must_use]
    pub fn learnt(&self, object: &Object) -> Option<&Learnt> {
        let mut learnt = self.learnt.iter().rev();
        learnt.find_map(|(of, learnt)| (of == object).then_some(learnt))
    }

    /// The VolumeSnapshot with this key; `None` if the API server has none.
    ///
    /// # Errors
    /// The object must be read first: the cache may be late.
    pub fn snapshot(&self, key: &Text) -> Result<Option<Arc<Snapshot>>, Next> {
        self.sure(self.informers.snapshot(key), Object::Snapshot(key.clone()))
    }

    /// The content of this name; `None` if the API server has none.
    ///
    /// # Errors
    /// The object must be read first: the cache may be late.
    pub fn content(&self, name: &Text) -> Result<Option<Arc<Content>>, Next> {
        self.sure(self.informers.content(name), Object::Content(name.clone()))
    }

    /// The VolumeGroupSnapshot with this key; `None` if the API server has none.
    ///
    /// # Errors
    /// The object must be read first: the cache may be late, and is empty where groups are not served.
    pub fn group(&self, key: &Text) -> Result<Option<Arc<Group>>, Next> {
        let object = Object::Group(key.clone());
        let follows = self.informers.groups() || self.learnt(&object).is_some();
        self.sure(self.informers.group(key).filter(|_| follows), object)
    }

    /// The group's content of this name; `None` if the API server has none.
    ///
    /// # Errors
    /// The object must be read first: the cache may be late.
    pub fn group_content(&self, name: &Text) -> Result<Option<Arc<GroupContent>>, Next> {
        let known = self.informers.group_content(name);
        self.sure(known, Object::GroupContent(name.clone()))
    }

    /// The group with this handle that a VolumeSnapshot belongs to: its owner, or the group that its status
    /// names, since several groups of a namespace may have the same handle. The group and its content are
    /// bound to each other.
    #[must_use]
    pub fn group_of(&self, snapshot: &Snapshot, handle: &GroupHandle) -> Option<Arc<Group>> {
        if !self.informers.groups() {
            return None;
        }
        let contents = self.in_flight.groups_of(handle);
        let contents = contents.filter_map(|name| self.informers.group_content(name));
        let mut groups = contents.filter_map(|content| {
            let group = self.informers.group(&content.group_key())?;
            content.is_bound_to(&group).then_some(group)
        });
        groups.find(|group| {
            let named = match snapshot.owner() {
                Some((uid, _)) => *uid == group.uid,
                None => snapshot.group().is_none_or(|name| *name == group.name),
            };
            named && snapshot.namespace == group.namespace
        })
    }

    /// Keys of the claims that are being restored from a VolumeSnapshot, or can be. A claim of another
    /// namespace counts once the provisioner holds the VolumeSnapshot for it: only the provisioner knows
    /// whether there is a grant, and without one the claim stays pending for ever.
    #[must_use]
    pub fn restoring(&self, snapshot: &Snapshot) -> Vec<Text> {
        if !snapshot.can_be_restored() {
            return Vec::new();
        }
        let is_held = snapshot.holds(SNAPSHOT_IN_USE);
        let counts = |claim: &Text| {
            let namespace = claim.split_once('/').map(|(namespace, _)| namespace);
            is_held || namespace == Some(&*snapshot.namespace)
        };
        let key = snapshot.key();
        let claims = self.in_flight.restoring(&key);
        claims.filter(|claim| counts(claim)).cloned().collect()
    }

    /// The claim with this key; `None` if the API server has none.
    ///
    /// # Errors
    /// The object must be read first: the cache may be late.
    pub fn claim(&self, key: &Text) -> Result<Option<Arc<Claim>>, Next> {
        self.sure(self.informers.claim(key), Object::Claim(key.clone()))
    }

    /// The volume of this name, or why it cannot be read.
    ///
    /// # Errors
    /// The object must be read first: the cache may be late.
    pub fn volume(&self, name: &Text) -> Result<Result<Arc<Volume>, String>, Next> {
        let object = Object::Volume(name.clone());
        if let Some(volume) = self.informers.volume(name) {
            return Ok(Ok(volume));
        }
        match self.learnt(&object) {
            None => Err(read(object)),
            Some(Learnt::Unread(error)) => Ok(Err(error.to_string())),
            Some(Learnt::Read(_)) => Ok(Err(format!("persistentvolumes {name:?} not found"))),
        }
    }

    /// Whether the API server has reported in this attempt that the object does not exist.
    #[must_use]
    pub fn is_gone(&self, object: &Object) -> bool {
        matches!(self.learnt(object), Some(Learnt::Unread(_)))
    }

    /// Prefers the API server's reply in this attempt to the cache, which may be late.
    fn sure<T>(&self, known: Option<Arc<T>>, object: Object) -> Result<Option<Arc<T>>, Next> {
        match (self.learnt(&object), known) {
            (Some(Learnt::Unread(_)), _) => Ok(None),
            (None, None) => Err(read(object)),
            (Some(Learnt::Read(_)) | None, known) => Ok(known),
        }
    }
}
