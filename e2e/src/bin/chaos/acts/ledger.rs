//! What is known of volumes and snapshots in the storage from what people have done: which must be there whatever objects say,
//! and of which nothing can be said.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Handles, and names that the driver was asked for, of volumes and snapshots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// No object has to stand for it, and it need not be there.
    pub(crate) free: BTreeSet<String>,
    /// It must be there, with or without an object.
    pub(crate) kept: BTreeSet<String>,
    /// UIDs of claims whose calls were given up with the journal.
    pub(crate) given_up: BTreeSet<String>,
}

/// The same while it is written by several.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Known>);

impl Ledger {
    fn with<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// As it is now.
    pub(crate) fn known(&self) -> Known {
        self.with(|known| known.clone())
    }

    /// Nothing can be said.
    pub(crate) fn free(&self, it: &str) {
        self.with(|known| {
            known.kept.remove(it);
            known.free.insert(it.to_owned());
        });
    }

    /// Nobody may delete it.
    pub(crate) fn keep(&self, it: &str) {
        self.with(|known| {
            known.free.remove(it);
            known.kept.insert(it.to_owned());
        });
    }

    /// An object stands for it, and it goes with the object.
    pub(crate) fn hold(&self, it: &str) {
        self.with(|known| {
            known.free.remove(it);
            known.kept.remove(it);
        });
    }

    /// Somebody deleted the journal's record of these claims.
    pub(crate) fn give_up(&self, claims: impl IntoIterator<Item = String>) {
        self.with(|known| known.given_up.extend(claims));
    }
}
