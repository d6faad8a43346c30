//! One kind of objects in a process: the real cache's store, fed from the log of a [`Server`] of
//! whole objects.

use std::cell::Cell;
use std::sync::Arc;

use serde_json::Value;
use sidecar::kube::cache::store::{Change, Store};
use sidecar::kube::cache::{Record, Source};
use sidecar::kube::interner::Interner;

use super::server::{Kind, Server};
use super::watch::key as cached;

type Text = Arc<str>;

/// A cache of one kind of objects, and its watch.
pub struct Informer<K, R> {
    kind: K,
    /// The objects that the process knows.
    pub store: Store<R>,
    /// This watch's position in the server's log.
    cursor: Cell<usize>,
    /// Whether a list was complete once.
    pub listed: bool,
}

impl<K: Kind, R: Record> Informer<K, R> {
    /// An informer without objects.
    pub fn new(kind: K) -> Self {
        Self {
            kind,
            store: Store::new(),
            cursor: Cell::new(0),
            listed: false,
        }
    }

    /// The kind, if there is an event to deliver.
    pub fn news(&self, server: &Server<K>) -> Option<K> {
        let left = server.log.get(self.cursor.get()..).unwrap_or_default();
        let others = left.iter().take_while(|event| event.kind != self.kind);
        let others = others.count();
        // Events of other kinds need not be scanned again.
        self.cursor.set(self.cursor.get() + others);
        (!self.listed || others < left.len()).then_some(self.kind)
    }

    /// Delivers the list if there was none or the watch broke, else the next event.
    pub fn next(&mut self, server: &Server<K>, breaks: bool) -> Vec<Change<R>> {
        if breaks || !self.listed {
            return self.list(server);
        }
        while let Some(event) = server.log.get(self.cursor.get()) {
            self.cursor.set(self.cursor.get() + 1);
            if event.kind != self.kind {
                continue;
            }
            let key = cached(&event.key);
            let record = event.json.as_deref().and_then(record::<R>);
            let change = match record {
                Some(record) => self.store.upsert(key, record, event.version),
                None => self.store.delete(key, event.version),
            };
            return change.into_iter().collect();
        }
        Vec::new()
    }

    fn list(&mut self, server: &Server<K>) -> Vec<Change<R>> {
        self.store.begin_list();
        let mut changes = Vec::new();
        for (key, object) in server.all(self.kind) {
            if let Some(record) = record::<R>(&object.to_string()) {
                changes.extend(self.store.upsert(cached(key), record, version(object)));
            }
        }
        changes.extend(self.store.finish_list(server.version));
        self.cursor.set(server.log.len());
        self.listed = true;
        changes
    }

    /// Announces an own write, or a GET, before it is sent.
    pub fn begin_write(&mut self, key: &str) {
        self.store.begin_write(&cached(key));
    }

    /// Ends an own write with its response; `None` if it failed.
    ///
    /// # Panics
    /// If the response is not an object.
    pub fn end_write(&mut self, key: &str, json: Option<&str>) -> Option<Change<R>> {
        let key = cached(key);
        let Some(json) = json else {
            return self.store.write_failed(&key);
        };
        let version = version(&serde_json::from_str(json).expect("an object"));
        match record::<R>(json) {
            Some(record) => self.store.write_answered(&key, record, version),
            // The object is no longer kept.
            None => self.store.write_answered_unkept(&key, version),
        }
    }
}

/// Decodes an object as a cache does.
fn record<R: Record>(json: &str) -> Option<R> {
    let wire = serde_json::from_str(json).expect("an object");
    R::from_wire(wire, &Interner::default())
}

fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version
        .and_then(|version| version.parse().ok())
        .expect("a version")
}

/// The key, the previous and the current record, and whether the change came from a response to
/// this process.
pub fn parts<R>(change: &Change<R>) -> (Text, Option<&R>, Option<&R>, bool) {
    match change {
        Change::Upserted {
            key,
            old,
            new,
            source,
        } => (
            key.as_str().into(),
            old.as_deref(),
            Some(&**new),
            *source == Source::Own,
        ),
        Change::Deleted { key, old } => (key.as_str().into(), Some(&**old), None, false),
    }
}
