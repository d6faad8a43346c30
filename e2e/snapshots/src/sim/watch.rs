//! One kind of object as a process sees it: the real cache's contents, fed from the server's log.

use std::cell::Cell;

use sidecar::kube::cache::store::{Change, Store};
use sidecar::kube::cache::{Record, Source};
use sidecar::kube::interner::Interner;
use sidecar::kube::key::Key;
use sidecar::text::Text;

use super::kind::{Kind, Server};

pub(super) struct Watch<R> {
    kind: Kind,
    pub(super) store: Store<R>,
    /// How far into the server's log this watch has come.
    cursor: Cell<usize>,
    pub(super) listed: bool,
}

impl<R: Record> Watch<R> {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            store: Store::new(),
            cursor: Cell::new(0),
            listed: false,
        }
    }

    /// The kind, if something is left to be told.
    pub(super) fn news(&self, server: &Server) -> Option<Kind> {
        let left = server.log.get(self.cursor.get()..).unwrap_or_default();
        let others = left.iter().take_while(|event| event.kind != self.kind);
        let others = others.count();
        // They need not be looked at again.
        self.cursor.set(self.cursor.get() + others);
        (!self.listed || others < left.len()).then_some(self.kind)
    }

    /// The list if there was none or the watch broke, else the next event.
    pub(super) fn next(&mut self, server: &Server, breaks: bool) -> Vec<Change<R>> {
        if breaks || !self.listed {
            return self.list(server);
        }
        while let Some(event) = server.log.get(self.cursor.get()) {
            self.cursor.set(self.cursor.get() + 1);
            if event.kind != self.kind {
                continue;
            }
            let key = cached(&event.key);
            let change = match &event.json {
                Some(json) => self.store.upsert(key, record::<R>(json), event.version),
                None => self.store.delete(key, event.version),
            };
            return change.into_iter().collect();
        }
        Vec::new()
    }

    fn list(&mut self, server: &Server) -> Vec<Change<R>> {
        self.store.begin_list();
        let mut changes = Vec::new();
        for (key, object) in server.all(self.kind) {
            let json = object.to_string();
            let version = version(object);
            changes.extend(self.store.upsert(cached(key), record::<R>(&json), version));
        }
        changes.extend(self.store.finish_list(server.version));
        self.cursor.set(server.log.len());
        self.listed = true;
        changes
    }

    pub(super) fn begin_write(&mut self, key: &Text) {
        self.store.begin_write(&cached(key));
    }

    /// An own write, or a GET, was answered; `None` if it failed.
    pub(super) fn end_write(&mut self, key: &Text, json: Option<&str>) -> Option<Change<R>> {
        let key = cached(key);
        let Some(json) = json else {
            return self.store.write_failed(&key);
        };
        let version = version(&serde_json::from_str(json).unwrap());
        self.store.write_answered(&key, record::<R>(json), version)
    }
}

/// Reads an object as a cache does.
fn record<R: Record>(json: &str) -> R {
    R::from_wire(serde_json::from_str(json).unwrap(), &Interner::default()).unwrap()
}

fn version(object: &serde_json::Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.unwrap().parse().unwrap()
}

fn cached(key: &str) -> Key {
    match key.split_once('/') {
        Some((namespace, name)) => Key::new(Some(namespace), name),
        None => Key::new(None, key),
    }
    .unwrap()
}

/// What was known, what is known, and whether from an answer to this process.
pub(super) fn parts<R>(change: &Change<R>) -> (Text, Option<&R>, Option<&R>, bool) {
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
