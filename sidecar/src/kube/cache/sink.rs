//! The interface between a feed and a cache of any record.

use std::cell::OnceCell;
use std::sync::Arc;

use super::identity::{identity, key_and_version};
use super::measured::look;
use super::sync_state::SyncState;
use super::{Cache, Event, ObjectError, Record};
use crate::kube::key::Key;
use crate::kube::lean::{Json, Meta, Object as _};
use crate::lifecycle::Look;

/// An object from the list or the watch, without `managedFields`. Each cache decodes it for itself;
/// key and version are read once for all of them.
pub(crate) struct RawObject<'a> {
    json: Json<'a>,
    identity: OnceCell<(Key, u64)>,
}

impl<'a> RawObject<'a> {
    pub(crate) fn new(json: &'a str) -> Self {
        Self {
            json: Json::new(json),
            identity: OnceCell::new(),
        }
    }

    /// The object's key and version, 0 if that is not a number.
    pub(crate) fn identity(&self) -> Result<(Key, u64), ObjectError> {
        self.identity_or(|| identity(&self.json))
    }

    /// The object's version if it was read already; 0 if not, or if it is not a number.
    pub(crate) fn known_version(&self) -> u64 {
        self.identity.get().map_or(0, |(_, version)| *version)
    }

    fn of(&self, meta: &Meta<'_>) -> Result<(Key, u64), ObjectError> {
        self.identity_or(|| key_and_version(meta))
    }

    fn identity_or(
        &self,
        read: impl FnOnce() -> Result<(Key, u64), ObjectError>,
    ) -> Result<(Key, u64), ObjectError> {
        if let Some(identity) = self.identity.get() {
            return Ok(identity.clone());
        }
        let identity = read()?;
        Ok(self.identity.get_or_init(|| identity).clone())
    }
}

/// A cache as its feed sees it.
pub(crate) trait Sink: Send + Sync {
    /// A list of all objects begins.
    fn begin_list(&self);

    /// Stores an object that the list or the watch brought.
    fn upsert(&self, object: &RawObject<'_>) -> Result<(), ObjectError>;

    /// Removes an object that the watch reports as gone.
    fn delete(&self, object: &RawObject<'_>) -> Result<(), ObjectError>;

    /// Keeps the record of an object that is in the list but unreadable.
    fn keep(&self, key: &str);

    /// The list is complete, as of this version.
    fn finish_list(&self, version: &str);

    /// Reports every object, as a resync does.
    fn resync(&self);

    /// Whether the cache is complete and kept up to date.
    fn sync_state(&self) -> &SyncState;
}

impl<R: Record> Sink for Cache<R> {
    fn begin_list(&self) {
        self.lock().begin_list();
    }

    fn upsert(&self, object: &RawObject<'_>) -> Result<(), ObjectError> {
        let wire: R::Wire<'_> = object.json.decode().map_err(ObjectError::Decode)?;
        let (key, version) = object.of(wire.meta())?;
        let mut store = self.lock();
        let look = look(store.get(key.as_str()).is_some());
        let record = || {
            self.look(&wire, look);
            self.read(wire).map(R::into_shared)
        };
        let Some(passed) = self.inner.passed.get() else {
            let change = store.upsert_with(key, version, record);
            drop(store);
            self.tell(change);
            return Ok(());
        };
        let change = store.upsert_with(key.clone(), version, record);
        let untold = change.is_none() && store.is_untold(key.as_str());
        drop(store);
        self.tell(change);
        if untold {
            passed(&key);
        }
        Ok(())
    }

    fn delete(&self, object: &RawObject<'_>) -> Result<(), ObjectError> {
        let (key, version) = object.identity()?;
        if self.inner.lifecycle.get().is_some() {
            let wire: Result<R::Wire<'_>, _> = object.json.decode();
            // An unreadable object is deleted all the same.
            if let Ok(wire) = wire {
                self.look(&wire, Look::Gone);
            }
        }
        let change = self.lock().delete(key, version);
        self.tell(change);
        Ok(())
    }

    fn keep(&self, key: &str) {
        self.lock().keep(key);
    }

    fn finish_list(&self, version: &str) {
        let changes = self.lock().finish_list(version.parse().unwrap_or(0));
        for change in changes {
            self.vanished(&change);
            self.tell(Some(change));
        }
        self.inner.strings.sweep();
        self.inner.sync_state.listed();
    }

    fn resync(&self) {
        let all: Vec<_> = {
            let store = self.lock();
            let each = store.iter();
            each.map(|(key, record)| (key.clone(), Arc::clone(record)))
                .collect()
        };
        for (key, record) in &all {
            (self.inner.handler)(Event::Resync { key, record });
        }
    }

    fn sync_state(&self) -> &SyncState {
        &self.inner.sync_state
    }
}
