//! The watch cache: a controller's records of one kind of objects, in one copy.
//!
//! Not `kube::runtime::reflector`, whose store holds typed objects (16 KB per PersistentVolume) and a
//! second copy of everything during a relist. Here the caller defines a small record per object. See
//! `docs/adr/0007-lean-watch-cache.md`.
//!
//! The cache does not talk to the API server; its [feed](super::feed) does.

mod identity;
mod measured;
mod request;
mod sink;
pub mod store;
mod sync_state;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use serde::Deserialize;

use super::interner::Interner;
use super::key::Key;
use super::lean::Object;
use crate::lifecycle::{Id, Lifecycle, Look, Step};

use identity::key_and_version;
use measured::look;
pub use request::{OpenWrite, OwnWrites};
pub(crate) use sink::{RawObject, Sink};
use store::{Change, Store};
use sync_state::SyncState;

/// A cache's record of an object, and its decoder.
pub trait Record: Send + Sync + Sized + 'static {
    /// The fields decoded from the API server's JSON: a lean type, see [`lean`](super::lean).
    type Wire<'a>: Deserialize<'a> + Object;

    /// Builds the record, with texts that many objects share taken from `strings`. Must not use the
    /// cache.
    ///
    /// `None` for an object that need not be cached: it is not kept, and if it was until now, it leaves
    /// the cache as if it were deleted.
    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self>;

    /// The progress of stages that this state of the object shows. A [`measured`](Cache::measured) cache calls it for
    /// each state before it reads the record, and for the last state of a deleted object. Must not use the cache.
    fn steps<'w>(_wire: &'w Self::Wire<'_>, _look: Look, _measured: &Lifecycle) -> Vec<Step<'w>> {
        Vec::new()
    }

    /// The object's identity in the lifecycle, if [`steps`](Self::steps) may have opened a stage of it.
    fn lifecycle_id(&self) -> Option<Id> {
        None
    }

    /// The record as the cache holds it. Equal records may share one allocation.
    fn into_shared(self) -> Arc<Self> {
        Arc::new(self)
    }
}

/// The origin of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The list or the watch.
    Watch,
    /// The response to a write of this process. The difference between old and new may also contain
    /// changes that others made just before.
    Own,
}

/// A change of an object in the cache, which has it already.
#[derive(Debug)]
pub enum Event<'a, R> {
    /// The object is new or has changed.
    Upserted {
        /// The object's name.
        key: &'a Key,
        /// The previous record.
        old: Option<&'a Arc<R>>,
        /// The current record.
        new: &'a Arc<R>,
        /// The origin of the change.
        source: Source,
    },
    /// The object is gone.
    Deleted {
        /// The object's name.
        key: &'a Key,
        /// The last record that the handler got.
        old: &'a Arc<R>,
    },
    /// The object is unchanged; a resync is due.
    Resync {
        /// The object's name.
        key: &'a Key,
        /// The current record.
        record: &'a Arc<R>,
    },
}

/// Why an object in a response of the API server could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The JSON does not match the record's type.
    #[error("cannot read the object")]
    Decode(#[source] serde_json::Error),
    /// The object has no usable `metadata.name`.
    #[error("the object has no usable name")]
    Nameless,
    /// The response to a write of one object is another object.
    #[error("the answer is about {0}")]
    Another(Key),
}

type Handler<R> = Box<dyn Fn(Event<'_, R>) + Send + Sync>;
type Trim<R> = Box<dyn Fn(&mut R) + Send + Sync>;
type Passed = Box<dyn Fn(&Key) + Send + Sync>;

struct Inner<R> {
    store: Mutex<Store<R>>,
    strings: Interner,
    handler: Handler<R>,
    trim: OnceLock<Trim<R>>,
    passed: OnceLock<Passed>,
    lifecycle: OnceLock<Lifecycle>,
    sync_state: SyncState,
}

/// A handle on the cache of one kind of objects; clones share the cache.
pub struct Cache<R> {
    inner: Arc<Inner<R>>,
}

impl<R> Clone for Cache<R> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<R> fmt::Debug for Cache<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl<R: Send + Sync + 'static> Cache<R> {
    /// An empty cache that reports changes to a method of its owner, in the same way as
    /// [`new`](Self::new), as long as the owner exists.
    pub fn owned<O: Send + Sync + 'static>(
        owner: &Weak<O>,
        strings: &Interner,
        handler: impl Fn(&O, Event<'_, R>) + Send + Sync + 'static,
    ) -> Self {
        let owner = owner.clone();
        Self::new(strings.clone(), move |event| {
            if let Some(owner) = owner.upgrade() {
                handler(&owner, event);
            }
        })
    }
}

impl<R> Cache<R> {
    /// An empty cache that reports changes to `handler`, one at a time per object and without holding a
    /// lock, so that the handler may read this cache and others.
    pub fn new(strings: Interner, handler: impl Fn(Event<'_, R>) + Send + Sync + 'static) -> Self {
        let store = Mutex::new(Store::new());
        Self {
            inner: Arc::new(Inner {
                store,
                strings,
                handler: Box::new(handler),
                trim: OnceLock::new(),
                passed: OnceLock::new(),
                lifecycle: OnceLock::new(),
                sync_state: SyncState::default(),
            }),
        }
    }

    /// Removes from each record what this process does not need. Call it before the cache is filled.
    #[must_use]
    pub fn trimmed(self, trim: impl Fn(&mut R) + Send + Sync + 'static) -> Self {
        // Set once; later calls are ignored.
        let _first = self.inner.trim.set(Box::new(trim));
        self
    }

    /// Keeps only objects whose records are `wanted`, and those that this process requests: with
    /// [`begin_write`](Self::begin_write), also for a GET. A requested object is kept until it is gone;
    /// of other objects the cache does not even know whether they exist. Call it before the cache is
    /// filled.
    #[must_use]
    pub fn only(self, wanted: impl Fn(&R) -> bool + Send + Sync + 'static) -> Self {
        {
            let mut store = self.lock();
            *store = std::mem::take(&mut *store).only(wanted);
        }
        self
    }

    /// Tells a method of the owner which objects the list and the watch brought without an event to the
    /// handler: those that are not kept, and those with a request in flight. A caller that misses such
    /// an object requests it again. Call it before the cache is filled.
    #[must_use]
    pub fn passing<O: Send + Sync + 'static>(
        self,
        owner: &Weak<O>,
        passed: impl Fn(&O, &Key) + Send + Sync + 'static,
    ) -> Self {
        let owner = owner.clone();
        let passed = Box::new(move |key: &Key| {
            if let Some(owner) = owner.upgrade() {
                passed(&owner, key);
            }
        });
        // Set once; later calls are ignored.
        let _first = self.inner.passed.set(passed);
        self
    }

    /// The record of the object with this key, `name` or `namespace/name`.
    pub fn get(&self, key: &str) -> Option<Arc<R>> {
        self.lock().get(key).cloned()
    }

    /// The record of the object with this key and its version; 0 if that is not a number.
    pub fn get_versioned(&self, key: &str) -> Option<(Arc<R>, u64)> {
        self.lock().get_versioned(key)
    }

    /// The cache's own copy of this key, which shares its text.
    pub fn key(&self, key: &str) -> Option<Key> {
        self.lock().key(key).cloned()
    }

    /// Visits every object, in no order. `visit` must not use this cache.
    pub fn for_each(&self, mut visit: impl FnMut(&Key, &Arc<R>)) {
        self.lock()
            .iter()
            .for_each(|(key, record)| visit(key, record));
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Announces a write of this object by this process, before the request is sent.
    ///
    /// Until the returned [`OwnWrite`] ends, changes of the object are stored but not reported.
    pub fn begin_write(&self, key: &Key) -> OwnWrite<R> {
        self.lock().begin_write(key);
        OwnWrite {
            cache: self.clone(),
            key: key.clone(),
            ended: false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Store<R>> {
        self.inner
            .store
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, change: Option<Change<R>>) {
        match &change {
            Some(Change::Upserted {
                key,
                old,
                new,
                source,
            }) => {
                let (old, source) = (old.as_ref(), *source);
                (self.inner.handler)(Event::Upserted {
                    key,
                    old,
                    new,
                    source,
                });
            }
            Some(Change::Deleted { key, old }) => (self.inner.handler)(Event::Deleted { key, old }),
            None => {}
        }
    }
}

impl<R: Record> Cache<R> {
    fn read(&self, wire: R::Wire<'_>) -> Option<R> {
        let mut record = R::from_wire(wire, &self.inner.strings)?;
        if let Some(trim) = self.inner.trim.get() {
            trim(&mut record);
        }
        Some(record)
    }
}

/// A write in flight; see [`Cache::begin_write`]. If dropped, the write counts as failed.
#[must_use = "dropping it says that the write failed"]
pub struct OwnWrite<R> {
    cache: Cache<R>,
    key: Key,
    ended: bool,
}

impl<R> OwnWrite<R> {
    fn fail(&mut self) {
        let change = self.cache.lock().write_failed(&self.key);
        self.cache.tell(change);
    }
}

impl<R: Record> OwnWrite<R> {
    /// Stores the object of the API server's response and returns the current record, which may be
    /// newer still; `None` if the object is gone or not kept.
    ///
    /// The handler gets the change with [`Source::Own`]. The writer itself decides on the returned
    /// record: others may have changed the object before.
    ///
    /// # Errors
    /// The response is not this object; the write then counts as failed.
    pub fn answered(self, json: &str) -> Result<Option<Arc<R>>, ObjectError> {
        let wire: R::Wire<'_> = serde_json::from_str(json).map_err(ObjectError::Decode)?;
        let (key, version) = key_and_version(wire.meta())?;
        if key != self.key {
            return Err(ObjectError::Another(key));
        }
        let store = self.cache.lock();
        let look = look(store.get(key.as_str()).is_some());
        // If the object is already deleted, no event would end a stage that this answer opens.
        let is_outdated = store.is_outdated(&key, version);
        drop(store);
        if !is_outdated {
            self.cache.look(&wire, look);
        }
        let record = self.cache.read(wire);
        Ok(self.answered_with(record, version))
    }

    /// Like [`answered`](Self::answered), for a writer that has decoded the response itself: takes the
    /// record that [`Record::from_wire`] would build, and the object's `metadata.resourceVersion`.
    pub fn answered_with(mut self, record: Option<R>, version: u64) -> Option<Arc<R>> {
        self.ended = true;
        let change = {
            let mut store = self.cache.lock();
            match record {
                Some(record) => {
                    let record = record.into_shared();
                    store.write_answered(&self.key, record, version)
                }
                None => store.write_answered_unkept(&self.key, version),
            }
        };
        self.cache.tell(change);
        self.cache.get(self.key.as_str())
    }
}

impl<R> Drop for OwnWrite<R> {
    fn drop(&mut self) {
        if !self.ended {
            self.fail();
        }
    }
}

impl<R> fmt::Debug for OwnWrite<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnWrite")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
