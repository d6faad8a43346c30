//! Access to the in-flight state for the crash simulation and its mutants.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Asked, ClaimKey, InFlightState, PendingCreate};
use crate::model::Claim;

/// State that a mutant does not see for a moment.
pub(crate) struct Hidden<P> {
    pending_creates: HashMap<ClaimKey, PendingCreate<P>>,
    calls: HashMap<ClaimKey, Arc<Claim>>,
}

impl<P: Asked> InFlightState<P> {
    /// Names of the maps that are not empty: none, once all claims and volumes are at rest.
    pub(crate) fn left(&self) -> Vec<&'static str> {
        let maps = [
            ("pending_creates", self.pending_creates.len()),
            ("unsaved", self.unsaved.len()),
            ("reported", self.reported.len()),
            ("transient", self.transient.len()),
            ("revoked", self.revoked.len()),
            ("adopted", self.adopted.len()),
            ("waits", self.waits.triggers().count()),
            ("calls", self.calls.len()),
            ("removed", self.removed.len()),
        ];
        let left = maps.into_iter().filter(|(_, entries)| *entries > 0);
        left.map(|(name, _)| name).collect()
    }

    pub(crate) fn hide_pending(&mut self, key: &ClaimKey) -> Option<PendingCreate<P>> {
        self.pending_creates.remove(key)
    }

    pub(crate) fn show_pending(&mut self, key: &ClaimKey, hidden: Option<PendingCreate<P>>) {
        if let Some(hidden) = hidden {
            self.pending_creates.insert(key.clone(), hidden);
        }
    }

    /// Drops the pinned request.
    pub(crate) fn drop_pinned(&mut self, key: &ClaimKey) {
        let saved = !self.unsaved.contains_key(key);
        if let Some(pending) = self
            .pending_creates
            .get_mut(key)
            .filter(|pending| saved && !pending.was_unsettled)
        {
            pending.pinned = None;
            self.settle_if_empty(key);
        }
    }

    /// Drops the other unsettled requests, unless there is a pinned one.
    pub(crate) fn drop_unsettled(&mut self, key: &ClaimKey, also_beside_pinned: bool) {
        let pending = self.pending_creates.get_mut(key);
        if let Some(pending) =
            pending.filter(|pending| also_beside_pinned || pending.pinned.is_none())
        {
            pending.unsettled.clear();
            self.settle_if_empty(key);
        }
    }

    /// Hides the claims with running or unsettled calls for a moment.
    pub(crate) fn hide_busy(&mut self) -> Hidden<P> {
        Hidden {
            pending_creates: std::mem::take(&mut self.pending_creates),
            calls: std::mem::take(&mut self.calls),
        }
    }

    pub(crate) fn show_busy(&mut self, hidden: Hidden<P>) {
        self.pending_creates = hidden.pending_creates;
        self.calls = hidden.calls;
    }

    fn settle_if_empty(&mut self, key: &ClaimKey) {
        let pending = self.pending_creates.get(key);
        if pending.is_some_and(|pending| pending.requests().next().is_none()) {
            self.settle(key);
        }
    }
}
