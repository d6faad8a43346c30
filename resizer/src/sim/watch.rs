//! One watch of a process: the real cache's contents, fed from the server's log.

use std::collections::BTreeMap;
use std::sync::Arc;

use sidecar::kube::cache::slots::{Change, Slots};
use sidecar::kube::key::Key;

use super::server::{Event, Versioned};
use crate::model::Text;

/// One kind of object as this process sees it.
pub(super) struct Watch<T> {
    pub(super) slots: Slots<T>,
    /// How far into the server's log this watch has come.
    pub(super) cursor: usize,
}

impl<T: Clone> Watch<T> {
    pub(super) fn new() -> Self {
        Self {
            slots: Slots::new(),
            cursor: 0,
        }
    }

    pub(super) fn get(&self, name: &Text) -> Option<&Arc<T>> {
        self.slots.get(name)
    }

    /// Lists everything, in one consistent read.
    pub(super) fn list(
        &mut self,
        objects: &BTreeMap<Text, Versioned<T>>,
        log: &[Versioned<Event>],
    ) -> Vec<Change<T>> {
        self.cursor = log.len();
        let now = log.last().map_or(0, |(version, _)| *version);
        self.slots.begin_list();
        let mut changes = Vec::new();
        for (name, (version, object)) in objects {
            changes.extend(self.slots.upsert(key(name), object.clone(), *version));
        }
        changes.extend(self.slots.finish_list(now));
        changes
    }

    pub(super) fn observe(
        &mut self,
        name: &Text,
        object: Option<T>,
        version: u64,
    ) -> Option<Change<T>> {
        match object {
            Some(object) => self.slots.upsert(key(name), object, version),
            None => self.slots.delete(key(name), version),
        }
    }
}

pub(super) fn key(name: &Text) -> Key {
    match name.split_once('/') {
        Some((namespace, name)) => Key::new(Some(namespace), name),
        None => Key::new(None, name),
    }
    .unwrap()
}
