//! Access to the in-flight state for the crash simulation and its mutants.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Asked, ClaimKey, InFlightState, PendingCreate};
use crate::model::Claim;

/// State that a mutant does not see for a moment.
pub(crate) struct Hidden<P> {
    doubts: HashMap<ClaimKey, PendingCreate<P>>,
    calls: HashMap<ClaimKey, Arc<Claim>>,
}

impl<P: Asked> InFlightState<P> {
    /// Names of the maps that are not empty: none, once all claims and volumes are at rest.
    pub(crate) fn left(&self) -> Vec<&'static str> {
        let books = [
            ("doubts", self.doubts.len()),
            ("unsaved", self.unsaved.len()),
            ("told", self.told.len()),
            ("hindered", self.hindered.len()),
            ("revoked", self.revoked.len()),
            ("adopted", self.adopted.len()),
            ("waits", self.waits.triggers().count()),
            ("calls", self.calls.len()),
            ("removed", self.removed.len()),
        ];
        let left = books.into_iter().filter(|(_, entries)| *entries > 0);
        left.map(|(book, _)| book).collect()
    }

    pub(crate) fn hide_doubt(&mut self, key: &ClaimKey) -> Option<PendingCreate<P>> {
        self.doubts.remove(key)
    }

    pub(crate) fn show_doubt(&mut self, key: &ClaimKey, hidden: Option<PendingCreate<P>>) {
        if let Some(hidden) = hidden {
            self.doubts.insert(key.clone(), hidden);
        }
    }

    /// Drops the pinned request.
    pub(crate) fn drop_pinned(&mut self, key: &ClaimKey) {
        let saved = !self.unsaved.contains_key(key);
        if let Some(doubt) = self
            .doubts
            .get_mut(key)
            .filter(|doubt| saved && !doubt.recalled)
        {
            doubt.pinned = None;
            self.settle_if_empty(key);
        }
    }

    /// Drops the other unsettled requests, unless there is a pinned one.
    pub(crate) fn drop_owed(&mut self, key: &ClaimKey, also_beside_pinned: bool) {
        let doubt = self.doubts.get_mut(key);
        if let Some(doubt) = doubt.filter(|doubt| also_beside_pinned || doubt.pinned.is_none()) {
            doubt.owed.clear();
            self.settle_if_empty(key);
        }
    }

    /// Hides the claims with running or unsettled calls for a moment.
    pub(crate) fn hide_busy(&mut self) -> Hidden<P> {
        Hidden {
            doubts: std::mem::take(&mut self.doubts),
            calls: std::mem::take(&mut self.calls),
        }
    }

    pub(crate) fn show_busy(&mut self, hidden: Hidden<P>) {
        self.doubts = hidden.doubts;
        self.calls = hidden.calls;
    }

    fn settle_if_empty(&mut self, key: &ClaimKey) {
        let doubt = self.doubts.get(key);
        if doubt.is_some_and(|doubt| doubt.requests().next().is_none()) {
            self.settle(key);
        }
    }
}
