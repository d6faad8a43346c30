//! The watch cache: what a controller knows of one kind of objects, in one copy.
//!
//! Not `kube::runtime::reflector`, whose store holds typed objects (16 KB per PersistentVolume) and
//! a second copy of everything during a relist. Here an object is a small record of the caller's
//! making. See `docs/adr/0007-lean-watch-cache.md`.
//!
//! The cache does not speak to the API server; its [feed](super::feed) does.

mod request;
mod sink;
pub mod store;
mod sync_state;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use serde::Deserialize;

use super::interner::Interner;
use super::key::Key;
use super::lean::{Json, Meta, Object};

pub use request::{OpenWrite, OwnWrites};
pub(crate) use sink::{RawObject, Sink};
use store::{Change, Store};
use sync_state::SyncState;

/// What a cache keeps of an object, and how it is read.
pub trait Record: Send + Sync + Sized + 'static {
    /// What is read of the API server's JSON: a lean type, see [`lean`](super::lean).
    type Wire<'a>: Deserialize<'a> + Object;

    /// The record, with texts that many objects share taken from `strings`. Must not use the cache.
    ///
    /// `None` for an object of which nothing needs to be known: it is not kept, and if it was until
    /// now, it leaves the cache as if it were deleted.
    fn from_wire(wire: Self::Wire<'_>, strings: &Interner) -> Option<Self>;

    /// The record as the cache holds it. Many that are alike may be one.
    fn into_shared(self) -> Arc<Self> {
        Arc::new(self)
    }
}

/// How a change came to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The list or the watch.
    Watch,
    /// The answer to a write of this process. The difference between old and new may also contain
    /// what others changed just before.
    Own,
}

/// What happened to an object in the cache; the cache shows it already.
#[derive(Debug)]
pub enum Event<'a, R> {
    /// It is new or has changed.
    Upserted {
        /// The object's name.
        key: &'a Key,
        /// What was known before.
        old: Option<&'a Arc<R>>,
        /// What is known now.
        new: &'a Arc<R>,
        /// How it came to be known.
        source: Source,
    },
    /// It is gone.
    Deleted {
        /// The object's name.
        key: &'a Key,
        /// What was last told of it.
        old: &'a Arc<R>,
    },
    /// Nothing happened; the time for a resync has come.
    Resync {
        /// The object's name.
        key: &'a Key,
        /// What is known.
        record: &'a Arc<R>,
    },
}

/// Why an object in an answer of the API server could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// Not the JSON that the record's type expects.
    #[error("cannot read the object")]
    Decode(#[source] serde_json::Error),
    /// Without a usable `metadata.name`.
    #[error("the object has no usable name")]
    Nameless,
    /// The answer to a write of one object was another object.
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
    sync_state: SyncState,
}

/// A handle on the cache of one kind of objects; clones are the same cache.
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
    /// An empty cache whose changes are told to a method of the one who owns it, as
    /// [`new`](Self::new) tells them, for as long as there is the owner.
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
    /// An empty cache whose changes are told to `handler`, one at a time per object and without any
    /// lock held, so that it may read this cache and others.
    pub fn new(strings: Interner, handler: impl Fn(Event<'_, R>) + Send + Sync + 'static) -> Self {
        let store = Mutex::new(Store::new());
        Self {
            inner: Arc::new(Inner {
                store,
                strings,
                handler: Box::new(handler),
                trim: OnceLock::new(),
                passed: OnceLock::new(),
                sync_state: SyncState::default(),
            }),
        }
    }

    /// Takes from each record what this process does not need. To be said before the cache is filled.
    #[must_use]
    pub fn trimmed(self, trim: impl Fn(&mut R) + Send + Sync + 'static) -> Self {
        // Set once; later calls are ignored.
        let _first = self.inner.trim.set(Box::new(trim));
        self
    }

    /// Keeps only objects whose records are `wanted`, and those that this process asks for: with
    /// [`begin_write`](Self::begin_write), also for a GET. Such an object is kept until it is gone; of
    /// others it is not even known whether they exist. To be said before the cache is filled.
    #[must_use]
    pub fn only(self, wanted: impl Fn(&R) -> bool + Send + Sync + 'static) -> Self {
        {
            let mut store = self.lock();
            *store = std::mem::take(&mut *store).only(wanted);
        }
        self
    }

    /// Tells a method of the owner which objects the list and the watch brought without the handler
    /// hearing of them: those that are not kept, and those that are being asked for. Who needs one that
    /// was missing asks for it again. To be said before the cache is filled.
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

    /// What is known of the object with this key, `name` or `namespace/name`.
    pub fn get(&self, key: &str) -> Option<Arc<R>> {
        self.lock().get(key).cloned()
    }

    /// What is known of the object with this key, and the version that this is; 0 if that is no number.
    pub fn get_versioned(&self, key: &str) -> Option<(Arc<R>, u64)> {
        self.lock().get_versioned(key)
    }

    /// The cache's own key of this object, which shares its text.
    pub fn key(&self, key: &str) -> Option<Key> {
        self.lock().key(key).cloned()
    }

    /// Looks at every object, in no order. `visit` must not use this cache.
    pub fn for_each(&self, mut visit: impl FnMut(&Key, &Arc<R>)) {
        self.lock()
            .iter()
            .for_each(|(key, record)| visit(key, record));
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Announces a write of this object by this process, before the request is sent.
    ///
    /// Until the returned [`OwnWrite`] ends, changes of the object are taken over but not told.
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

/// A write under way; see [`Cache::begin_write`]. Dropped, the write counts as failed.
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
    /// Takes over the object as the API server answered it and returns what is known now, which may
    /// be newer still; `None` if the object is gone or not kept.
    ///
    /// The handler hears of the change with [`Source::Own`]. What it means to the writer itself is
    /// the writer's to decide, on the returned record: others may have changed the object before.
    ///
    /// # Errors
    /// When the answer is not this object; the write then counts as failed.
    pub fn answered(self, json: &str) -> Result<Option<Arc<R>>, ObjectError> {
        let wire: R::Wire<'_> = serde_json::from_str(json).map_err(ObjectError::Decode)?;
        let (key, version) = key_and_version(wire.meta())?;
        if key != self.key {
            return Err(ObjectError::Another(key));
        }
        let record = self.cache.read(wire);
        Ok(self.answered_with(record, version))
    }

    /// The same for a writer that has read the answer for purposes of its own: the record that
    /// [`Record::from_wire`] would make of it, and its `metadata.resourceVersion`.
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

/// The key and version of an object of which nothing else can be read.
fn identity(json: &Json<'_>) -> Result<(Key, u64), ObjectError> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow, default)]
        metadata: Identity<'a>,
    }
    #[derive(Deserialize, Default)]
    #[serde(default, rename_all = "camelCase")]
    struct Identity<'a> {
        #[serde(borrow)]
        name: Option<super::lean::Text<'a>>,
        #[serde(borrow)]
        namespace: Option<super::lean::Text<'a>>,
        #[serde(borrow)]
        resource_version: Option<super::lean::Text<'a>>,
    }
    let Named { metadata } = json.decode().map_err(ObjectError::Decode)?;
    let Identity {
        name,
        namespace,
        resource_version,
    } = metadata;
    key_and_version(&Meta {
        name,
        namespace,
        resource_version,
        ..Meta::default()
    })
}

fn key_and_version(meta: &Meta<'_>) -> Result<(Key, u64), ObjectError> {
    let name = meta.name.as_deref().unwrap_or_default();
    let key = Key::new(meta.namespace.as_deref(), name).ok_or(ObjectError::Nameless)?;
    let version = meta
        .resource_version
        .as_deref()
        .and_then(|text| text.parse().ok());
    Ok((key, version.unwrap_or(0)))
}

#[cfg(test)]
mod tests;
