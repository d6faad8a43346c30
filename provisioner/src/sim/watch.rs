//! One watch of a process: the real cache's contents, fed from the server's log.

use std::collections::BTreeMap;
use std::sync::Arc;

use sidecar::kube::cache::store::{Change, Store};
use sidecar::kube::key::Key;

use super::server::Versioned;
use crate::model::Text;

/// One kind of object as this process sees it.
pub(super) struct Watch<R> {
    pub(super) slots: Store<R>,
    /// How far into the server's log this watch has come.
    pub(super) cursor: usize,
}

impl<R> Watch<R> {
    pub(super) fn new() -> Self {
        Self {
            slots: Store::new(),
            cursor: 0,
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<R>> {
        self.slots.get(name)
    }

    /// Lists everything, in one consistent read as of `now`.
    pub(super) fn list<T>(
        &mut self,
        objects: &BTreeMap<Text, Versioned<T>>,
        (end, now): (usize, u64),
        keep: impl Fn(&T) -> Option<R>,
    ) -> Vec<Change<R>> {
        self.cursor = end;
        self.slots.begin_list();
        let mut changes = Vec::new();
        for (name, (version, object)) in objects {
            changes.extend(self.slots.upsert_with(key(name), *version, || keep(object)));
        }
        changes.extend(self.slots.finish_list(now));
        changes
    }

    pub(super) fn observe(
        &mut self,
        name: &Text,
        record: Option<R>,
        version: u64,
    ) -> Option<Change<R>> {
        match record {
            Some(record) => self.slots.upsert(key(name), record, version),
            None => self.slots.delete(key(name), version),
        }
    }
}

/// The cache's key of an object, whose namespace is part of `name`.
pub(super) fn key(name: &str) -> Key {
    match name.split_once('/') {
        Some((namespace, name)) => Key::new(Some(namespace), name).unwrap(),
        None => Key::new(None, name).unwrap(),
    }
}
