//! One watch of a process: the real cache's contents, filled page by page and then fed from the
//! server's log.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use sidecar::kube::cache::store::{Change, Store};
use sidecar::kube::key::Key;

use super::server::{Event, Versioned};
use crate::model::Text;

struct Listing<T> {
    left: VecDeque<(Text, Versioned<T>)>,
    version: u64,
}

/// One kind of object as this process sees it.
pub(super) struct Watch<T> {
    pub(super) slots: Store<T>,
    /// How far into the server's log this watch has come.
    pub(super) cursor: usize,
    /// What a list under way has still to bring, and the version that it is of.
    listing: Option<Listing<T>>,
    /// Whether a list was complete once.
    pub(super) synced: bool,
}

impl<T: Clone> Watch<T> {
    pub(super) fn new() -> Self {
        Self::over(Store::new())
    }

    /// Keeps what is wanted, and what was asked for.
    pub(super) fn only(wanted: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        Self::over(Store::new().only(wanted))
    }

    fn over(slots: Store<T>) -> Self {
        Self {
            slots,
            cursor: 0,
            listing: None,
            synced: false,
        }
    }

    pub(super) fn get(&self, name: &Text) -> Option<Arc<T>> {
        self.slots.get(name).cloned()
    }

    pub(super) fn is_listing(&self) -> bool {
        self.listing.is_some()
    }

    /// A list of everything begins, which is one consistent read.
    pub(super) fn begin_list(
        &mut self,
        objects: &BTreeMap<Text, Versioned<T>>,
        log: &[Versioned<Event>],
    ) {
        self.cursor = log.len();
        let now = log.last().map_or(0, |(version, _)| *version);
        let all = objects.iter();
        let all = all.map(|(name, object)| (name.clone(), object.clone()));
        self.listing = Some(Listing {
            left: all.collect(),
            version: now,
        });
        self.slots.begin_list();
    }

    /// The next page of the list, if one is under way.
    pub(super) fn page(&mut self) -> Vec<Change<T>> {
        let Some(listing) = &mut self.listing else {
            return Vec::new();
        };
        if let Some((name, (version, object))) = listing.left.pop_front() {
            let change = self.slots.upsert(key(&name), object, version);
            return change.into_iter().collect();
        }
        let version = listing.version;
        self.listing = None;
        self.synced = true;
        self.slots.finish_list(version)
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
