//! One watch of a process: the real cache's contents, fed from the server's log.

use std::collections::BTreeMap;
use std::sync::Arc;

use sidecar::kube::cache::store::{Change, Store};
use sidecar::kube::key::Key;

use super::server::{Event, Versioned};
use crate::model::Text;

/// One kind of object as this process sees it.
pub(super) struct Watch<T> {
    pub(super) slots: Store<T>,
    /// How far into the server's log this watch has come.
    pub(super) cursor: usize,
    listing: Option<Listing<T>>,
}

/// A list on its way. Work goes on meanwhile, and events wait.
enum Listing<T> {
    /// Asked for.
    Begun,
    /// The server has read it, all at once; it arrives object by object.
    Read {
        left: Vec<(Text, Versioned<T>)>,
        at: u64,
    },
}

/// What a part of a list was.
pub(super) enum Part<T> {
    /// The server reads its objects now.
    Read,
    /// It arrived, with these changes.
    Arrived(Vec<Change<T>>),
    /// An object of this name arrived of which nobody is told.
    Passed(Text),
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
        }
    }

    pub(super) fn get(&self, name: &Text) -> Option<&Arc<T>> {
        self.slots.get(name)
    }

    pub(super) fn is_listing(&self) -> bool {
        self.listing.is_some()
    }

    /// A list begins, instead of one that is still on its way.
    pub(super) fn begin_list(&mut self) {
        self.slots.begin_list();
        self.listing = Some(Listing::Begun);
    }

    /// The next part of the list on its way; `None` if there is none.
    pub(super) fn go_on_listing(
        &mut self,
        objects: &BTreeMap<Text, Versioned<T>>,
        log: &[Versioned<Event>],
    ) -> Option<Part<T>> {
        match self.listing.take()? {
            Listing::Begun => {
                self.cursor = log.len();
                self.listing = Some(Listing::Read {
                    left: { objects.iter() }
                        .map(|(name, held)| (name.clone(), held.clone()))
                        .collect(),
                    at: log.last().map_or(0, |(version, _)| *version),
                });
                Some(Part::Read)
            }
            Listing::Read { mut left, at } => Some(match left.pop() {
                Some((name, (version, object))) => {
                    self.listing = Some(Listing::Read { left, at });
                    match self.slots.upsert(key(&name), object, version) {
                        None if self.slots.is_untold(&name) => Part::Passed(name),
                        change => Part::Arrived(change.into_iter().collect()),
                    }
                }
                None => Part::Arrived(self.slots.finish_list(at)),
            }),
        }
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
    Key::new(None, name).unwrap()
}
