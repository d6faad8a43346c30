//! The cache's contents as a pure structure: one record per object, changed in place.
//!
//! The structure is pure, so that tests can check its rules. The rules:
//!
//! * A relist marks the objects it meets and sweeps the rest; there is never a second map.
//! * The response to an own write is stored at once, and an older event of the same object is
//!   skipped, so that no decision uses a state older than what this process wrote itself.
//! * While watching, an object's version only rises: an event older than its record is skipped.
//!   The version of a deleted object is remembered for a while, or an old event would bring the
//!   object back.
//! * While an own write is in flight, changes of that object are stored but not reported; they are
//!   reported together with the response. Otherwise the write's own event, which often comes before
//!   the response, would look like a change and requeue the object.
//! * Objects that are not [`wanted`](Store::only) are kept from the first request of this process
//!   about them until they are gone. Of others the store does not even know that they exist: their
//!   absence means nothing, neither to a reader nor to a list that has already passed them.
//!
//! Versions are compared as numbers, which Kubernetes has promised since 1.35 and etcd always gave;
//! only versions of one and the same object, or an object's and a list's. An own write of one object is
//! often answered before the watch has brought earlier changes of others: dropping those for being
//! older than the response would lose them until the next list. 0 stands for a version that is not a
//! number: equal to none, newer than all.

mod deletions;
mod own_writes;
mod stamp;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::kube::key::Key;

use super::Source;
use deletions::Deletions;
use stamp::Stamp;

/// A change of one object, to be reported to the handler.
#[derive(Debug, PartialEq, Eq)]
pub enum Change<R> {
    /// The object is new or has changed.
    Upserted {
        /// The object's name.
        key: Key,
        /// The last record that the handler got.
        old: Option<Arc<R>>,
        /// The current record.
        new: Arc<R>,
        /// The origin of the change.
        source: Source,
    },
    /// The object is gone.
    Deleted {
        /// The object's name.
        key: Key,
        /// The last record that the handler got.
        old: Arc<R>,
    },
}

#[derive(Debug)]
struct Slot<R> {
    record: Arc<R>,
    stamp: Stamp,
}

/// Own writes in flight on one object.
#[derive(Debug)]
struct Pending<R> {
    writes: usize,
    /// The record that the handler knows, if the slot holds another.
    untold: Option<Option<Arc<R>>>,
    deleted_at: Option<u64>,
    /// The generation in which the last write began. Lists that began later meet the object, wanted or
    /// not.
    generation: u32,
}

impl<R> Pending<R> {
    /// Records that the object is gone or no longer kept. Responses may arrive in another order than
    /// the changes happened.
    fn deleted(&mut self, version: u64) {
        let known = self.deleted_at.unwrap_or(version);
        // After a version that is not a number, no version counts as newer.
        let unknown = known == 0 || version == 0;
        self.deleted_at = Some(if unknown { 0 } else { known.max(version) });
    }
}

/// Whether an object is kept although this process never requested it.
type IsWanted<R> = Box<dyn Fn(&R) -> bool + Send + Sync>;

/// `None` wants all objects.
struct Wanted<R>(Option<IsWanted<R>>);

impl<R> Wanted<R> {
    fn has(&self, record: &R) -> bool {
        self.0.as_ref().is_none_or(|wanted| wanted(record))
    }
}

impl<R> fmt::Debug for Wanted<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wanted").field(&self.0.is_some()).finish()
    }
}

/// The contents of a cache. Public for simulations; everything else goes through
/// [`Cache`](super::Cache).
#[derive(Debug)]
pub struct Store<R> {
    map: HashMap<Key, Slot<R>>,
    pending: HashMap<Key, Pending<R>>,
    deletions: Deletions,
    wanted: Wanted<R>,
    generation: u32,
    listing: bool,
    /// The generation of the last complete list; 0 if there was none.
    complete: u32,
    /// Version of the last complete list; 0 if unknown.
    listed_at: u64,
}

impl<R> Default for Store<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R> Store<R> {
    /// An empty store.
    pub fn new() -> Self {
        Self {
            map: HashMap::new(),
            pending: HashMap::new(),
            deletions: Deletions::default(),
            wanted: Wanted(None),
            generation: 1,
            listing: false,
            complete: 0,
            listed_at: 0,
        }
    }

    /// Keeps only objects whose records are `wanted`, and those that this process requests.
    #[must_use]
    pub fn only(mut self, wanted: impl Fn(&R) -> bool + Send + Sync + 'static) -> Self {
        self.wanted = Wanted(Some(Box::new(wanted)));
        self
    }

    /// The record of the object with this key.
    pub fn get(&self, key: &str) -> Option<&Arc<R>> {
        self.map.get(key).map(|slot| &slot.record)
    }

    /// The record of the object with this key and its version; 0 if that is not a number.
    pub fn get_versioned(&self, key: &str) -> Option<(Arc<R>, u64)> {
        let slot = self.map.get(key)?;
        Some((Arc::clone(&slot.record), slot.stamp.version()))
    }

    /// Whether the handler never heard of an object with this key, because it is not wanted or has a
    /// request in flight, for example.
    pub fn is_untold(&self, key: &str) -> bool {
        match self.pending.get(key).map(|pending| &pending.untold) {
            Some(Some(told)) => told.is_none(),
            Some(None) | None => !self.map.contains_key(key),
        }
    }

    pub(super) fn key(&self, key: &str) -> Option<&Key> {
        self.map.get_key_value(key).map(|(key, _)| key)
    }

    /// Every object, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Arc<R>)> {
        self.map.iter().map(|(key, slot)| (key, &slot.record))
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    /// A list of all objects begins.
    pub fn begin_list(&mut self) {
        self.generation = self.generation.wrapping_add(1).max(1);
        self.listing = true;
        for slot in self.map.values_mut() {
            slot.stamp.begin_list();
        }
    }

    /// Ends a list, which is complete as of `version`, 0 if unknown: objects that it did not contain
    /// are gone, except those that this process wrote since.
    pub fn finish_list(&mut self, version: u64) -> Vec<Change<R>> {
        self.listing = false;
        self.complete = self.generation;
        self.listed_at = version;
        let generation = self.generation;
        let stale = |slot: &Slot<R>| {
            let known = slot.stamp.version();
            let later = slot.stamp.is_own() && (known == 0 || known > version);
            !slot.stamp.is_met() && !later
        };
        let gone: Vec<Key> = self
            .map
            .iter()
            .filter(|(_, slot)| stale(slot))
            .map(|(key, _)| key.clone())
            .collect();
        let changes = gone
            .into_iter()
            .filter_map(|key| self.remove(key, version))
            .collect();
        self.deletions.keep_only(generation);
        if self.map.capacity() > 4 * self.map.len().max(64) {
            self.map.shrink_to(2 * self.map.len());
        }
        changes
    }

    /// Keeps the record of an object that is in the list but unreadable.
    pub(super) fn keep(&mut self, key: &str) {
        if let Some(slot) = self.map.get_mut(key) {
            slot.stamp.meet();
        }
    }

    /// Stores an object that the list or the watch brought.
    pub fn upsert(
        &mut self,
        key: Key,
        record: impl Into<Arc<R>>,
        version: u64,
    ) -> Option<Change<R>> {
        self.upsert_with(key, version, || Some(record))
    }

    /// Stores an object that the list or the watch brought; builds its record only if it is a change.
    /// `None` stands for an object that is not kept.
    pub fn upsert_with<A: Into<Arc<R>>>(
        &mut self,
        key: Key,
        version: u64,
        record: impl FnOnce() -> Option<A>,
    ) -> Option<Change<R>> {
        if let Some(slot) = self.map.get_mut(&key) {
            slot.stamp.meet();
            if version != 0 && version == slot.stamp.version() {
                slot.stamp.confirm();
                return None;
            }
        }
        if self.is_outdated(&key, version) {
            return None;
        }
        let Some(record) = record() else {
            return self.remove(key, version);
        };
        let record = record.into();
        let kept = self.is_asked_for(&key) || self.wanted.has(&record);
        kept.then(|| self.store(key, record, version)).flatten()
    }

    /// Whether the object is kept, or about to be.
    fn is_asked_for(&self, key: &Key) -> bool {
        self.map.contains_key(key.as_str()) || self.pending.contains_key(key.as_str())
    }

    /// Removes an object that the watch reports as gone, or that is no longer kept.
    pub fn delete(&mut self, key: Key, version: u64) -> Option<Change<R>> {
        if self.is_outdated(&key, version) {
            return None;
        }
        self.remove(key, version)
    }

    /// Whether the store has a newer state of this object than the list or the watch brings now.
    ///
    /// A resumed watch, or something between here and the API server, may repeat an event. A list that
    /// began after an own write was answered must contain it; if it brings something older, the API
    /// server's storage was restored to an earlier state and the list is right.
    pub(super) fn is_outdated(&self, key: &Key, version: u64) -> bool {
        if version == 0 {
            return false;
        }
        let (generation, listing) = (self.generation, self.listing);
        match self.map.get(key.as_str()) {
            Some(Slot { stamp, .. }) => version < stamp.version() && (!listing || stamp.is_own()),
            // Events of a watch are newer than the list it began with.
            None if !listing && version <= self.listed_at => true,
            None => self.deletions.of(key).is_some_and(|gone| {
                version <= gone.version && (!listing || gone.own == generation)
            }),
        }
    }

    fn store(&mut self, key: Key, record: Arc<R>, version: u64) -> Option<Change<R>> {
        let old = self.map.get(&key).map(|slot| Arc::clone(&slot.record));
        let slot = Slot {
            record,
            stamp: Stamp::met(version),
        };
        let new = self.put(key.clone(), slot);
        if let Some(pending) = self.pending.get_mut(&key) {
            pending.untold.get_or_insert(old);
            pending.deleted_at = None;
            return None;
        }
        Some(Change::Upserted {
            key,
            old,
            new,
            source: Source::Watch,
        })
    }

    fn put(&mut self, key: Key, slot: Slot<R>) -> Arc<R> {
        let record = Arc::clone(&slot.record);
        match self.map.get_mut(&key) {
            Some(known) => *known = slot,
            None => {
                self.deletions.forget(&key);
                self.map.insert(key, slot);
            }
        }
        record
    }

    fn remove(&mut self, key: Key, version: u64) -> Option<Change<R>> {
        let slot = self.map.remove(&key);
        if slot.is_some() || self.pending.contains_key(&key) {
            self.deletions.add(&key, version, 0);
        }
        let mut told = slot.map(|slot| slot.record);
        if let Some(pending) = self.pending.get_mut(&key) {
            pending.deleted(version);
            if let Some(untold) = pending.untold.take() {
                told = untold;
            }
        }
        told.map(|old| Change::Deleted { key, old })
    }
}

#[cfg(test)]
mod tests;
