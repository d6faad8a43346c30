//! What a decision looks at: the newest of the object itself, everything it refers to, and what this
//! attempt has learnt from the API server beyond the caches.

use std::sync::Arc;

use sidecar::snapshot::SNAPSHOT_IN_USE;

use super::Informers;
use super::complaint::{Complaint, RequeueTrigger};
use super::in_flight::{GroupHandle, InFlightState};
use super::request::{ApiError, Object, Request, read};
use crate::model::{Claim, Content, Group, GroupContent, Snapshot, Text, Volume};

/// What an attempt wants next.
pub enum Next {
    /// Nothing is left to do.
    Done,
    /// This.
    Ask(Box<Request>),
    /// Nothing, before whoever writes to the claim has come to an end.
    Wait(Text),
    /// Nothing, before this comes: there is nothing to tell of.
    Await(RequeueTrigger),
    /// It fails.
    Fail(Box<Complaint>),
}

/// What a write is for: what its failure means, and what its success tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Purpose {
    /// A VolumeSnapshot's finalizers are added.
    Finalizers,
    /// A VolumeSnapshot gets its driver's default class.
    DefaultClass,
    /// A claim gets our finalizer.
    Protect,
    /// A claim loses our finalizer.
    Release,
    /// A content comes into being.
    Create {
        /// Whether there is no node that its volume can be reached from.
        nowhere: bool,
    },
    /// A content that an administrator made is bound.
    Bind,
    /// A content is told that its VolumeSnapshot is being deleted.
    Announce,
    /// A content is deleted.
    Delete,
    /// A VolumeSnapshot's status follows its content's.
    Status(Progress),
    /// A VolumeSnapshot that is being deleted loses its finalizers.
    Unprotect,
    /// A failure is written into the status.
    Complain(Box<Complaint>),
    /// A content gets the finalizer that the sidecar removes.
    ContentFinalizer,
    /// A member of a group is made, or is deleted with it.
    Member,
}

/// What a status shows for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The snapshot was taken.
    pub created: bool,
    /// The snapshot can be used.
    pub ready: bool,
}

/// What is known of an object that may not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Learnt {
    /// The API server has none, or said why it does not tell.
    Unread(ApiError),
    /// It was read; of a claim, this is the JSON, of several their names.
    Read(Option<Text>),
}

/// See the module.
pub struct View<'a> {
    /// The caches.
    pub informers: &'a (dyn Informers + 'static),
    /// What the process remembers.
    pub in_flight: &'a InFlightState,
    /// What this attempt has read.
    pub learnt: &'a [(Object, Learnt)],
}

impl View<'_> {
    /// What this attempt has read of an object.
    #[must_use]
    pub fn learnt(&self, object: &Object) -> Option<&Learnt> {
        let mut learnt = self.learnt.iter().rev();
        learnt.find_map(|(of, learnt)| (of == object).then_some(learnt))
    }

    /// The VolumeSnapshot with this key; `None` if the API server has none.
    ///
    /// # Errors
    /// It has to be read first: a cache may be late.
    pub fn snapshot(&self, key: &Text) -> Result<Option<Arc<Snapshot>>, Next> {
        self.sure(self.informers.snapshot(key), Object::Snapshot(key.clone()))
    }

    /// The content of this name; `None` if the API server has none.
    ///
    /// # Errors
    /// It has to be read first: a cache may be late.
    pub fn content(&self, name: &Text) -> Result<Option<Arc<Content>>, Next> {
        self.sure(self.informers.content(name), Object::Content(name.clone()))
    }

    /// The VolumeGroupSnapshot with this key; `None` if the API server has none.
    ///
    /// # Errors
    /// It has to be read first: a cache may be late, and nobody fills it where groups are not served.
    pub fn group(&self, key: &Text) -> Result<Option<Arc<Group>>, Next> {
        let object = Object::Group(key.clone());
        let follows = self.informers.groups() || self.learnt(&object).is_some();
        self.sure(self.informers.group(key).filter(|_| follows), object)
    }

    /// The group's content of this name; `None` if the API server has none.
    ///
    /// # Errors
    /// It has to be read first: a cache may be late.
    pub fn group_content(&self, name: &Text) -> Result<Option<Arc<GroupContent>>, Next> {
        let known = self.informers.group_content(name);
        self.sure(known, Object::GroupContent(name.clone()))
    }

    /// The group with this handle that a VolumeSnapshot belongs to: its owner, or the one that it names,
    /// for another group of its namespace may have been made of the same handle. It and its content are
    /// bound to one another.
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

    /// Keys of the claims that are being restored from a VolumeSnapshot, or can be. One of another namespace
    /// counts once the provisioner holds the VolumeSnapshot for it: whether there is a grant nobody else says,
    /// and without one it stays pending for ever.
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
    /// It has to be read first: a cache may be late.
    pub fn claim(&self, key: &Text) -> Result<Option<Arc<Claim>>, Next> {
        self.sure(self.informers.claim(key), Object::Claim(key.clone()))
    }

    /// The volume of this name, or why it cannot be had.
    ///
    /// # Errors
    /// It has to be read first: a cache may be late.
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

    /// Whether the API server has said in this attempt that there is no such object.
    #[must_use]
    pub fn is_gone(&self, object: &Object) -> bool {
        matches!(self.learnt(object), Some(Learnt::Unread(_)))
    }

    /// What the API server itself said in this attempt counts more than a cache, which may be late.
    fn sure<T>(&self, known: Option<Arc<T>>, object: Object) -> Result<Option<Arc<T>>, Next> {
        match (self.learnt(&object), known) {
            (Some(Learnt::Unread(_)), _) => Ok(None),
            (None, None) => Err(read(object)),
            (Some(Learnt::Read(_)) | None, known) => Ok(known),
        }
    }
}
