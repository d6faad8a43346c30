//! One kind of object as a process sees it: the real cache's contents, fed from the server's log.

use sidecar::kube::cache::Record;
use sidecar::kube::cache::store::{Change, Store};
use sidecar::kube::key::Key;

use crate::model::Text;
use crate::testing::bench::record;
use crate::testing::server::{Event, Kind, Server};

pub(super) struct Watch<R> {
    kind: Kind,
    pub(super) slots: Store<R>,
    /// How far into the server's log this watch has come.
    cursor: usize,
    listed: bool,
}

impl<R: Record> Watch<R> {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            slots: Store::new(),
            cursor: 0,
            listed: false,
        }
    }

    pub(super) fn is_listed(&self) -> bool {
        self.listed
    }

    /// Whether it has told everything.
    pub(super) fn is_current(&self, server: &Server) -> bool {
        let mut left = server.log.get(self.cursor..).unwrap_or_default().iter();
        self.listed && !left.any(|event| event.kind == self.kind)
    }

    /// Lists everything, for the first time or because the watch broke.
    pub(super) fn list(&mut self, server: &Server) -> Vec<Change<R>> {
        self.slots.begin_list();
        let mut changes = Vec::new();
        for (key, object) in server.all(self.kind) {
            let json = object.to_string();
            let version = object["metadata"]["resourceVersion"].as_str().unwrap();
            let version = version.parse().unwrap();
            changes.extend(
                self.slots
                    .upsert(cached(key), record::<R>(&json).unwrap(), version),
            );
        }
        changes.extend(self.slots.finish_list(server.version));
        self.cursor = server.log.len();
        self.listed = true;
        changes
    }

    /// The next event, if there is one.
    pub(super) fn hear(&mut self, server: &Server) -> Option<Change<R>> {
        while let Some(event) = server.log.get(self.cursor) {
            self.cursor += 1;
            if event.kind == self.kind {
                return self.take(event);
            }
        }
        None
    }

    fn take(&mut self, event: &Event) -> Option<Change<R>> {
        let key = cached(&event.key);
        match &event.json {
            Some(json) => self.slots.upsert(key, record::<R>(json)?, event.version),
            None => self.slots.delete(key, event.version),
        }
    }

    /// An own write, or a GET, was answered; `None` if it failed.
    pub(super) fn answered(&mut self, key: &Text, json: Option<&str>) -> Option<Change<R>> {
        let key = cached(key);
        let Some(json) = json else {
            return self.slots.write_failed(&key);
        };
        let object: serde_json::Value = serde_json::from_str(json).unwrap();
        let version = object["metadata"]["resourceVersion"].as_str().unwrap();
        self.slots
            .write_answered(&key, record::<R>(json)?, version.parse().unwrap())
    }

    pub(super) fn announce(&mut self, key: &Text) {
        self.slots.begin_write(&cached(key));
    }
}

pub(super) fn cached(key: &str) -> Key {
    match key.split_once('/') {
        Some((namespace, name)) => Key::new(Some(namespace), name),
        None => Key::new(None, key),
    }
    .unwrap()
}
