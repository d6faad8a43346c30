//! The part that a decision about one key looks at: in an outage 50,000 claims have requests with unknown outcome.

use sidecar::part::only;

use super::{Asked, ClaimKey, InFlightState};
use crate::model::{Claim, Text};

impl<P: Asked + Clone> InFlightState<P> {
    /// No part, with the same times.
    #[must_use]
    pub fn of_nothing(&self) -> Self {
        Self::new(self.longest)
    }

    /// The part about a claim.
    #[must_use]
    pub fn of_claim(&self, key: &ClaimKey) -> Self {
        Self {
            pending_creates: only(self.pending_creates.get_key_value(key)),
            unsaved: only(self.unsaved.get_key_value(key)),
            slow: self.slow.about(key),
            ..self.of_nothing()
        }
    }

    /// The part about a PersistentVolume.
    #[must_use]
    pub fn of_volume(&self, name: &Text) -> Self {
        Self {
            removed: only(self.removed.get_key_value(name)),
            ..self.of_nothing()
        }
    }

    /// Adds those of [`busy_claims`](Self::busy_claims) of the `whole` that `need` the same data source.
    #[must_use]
    pub fn with_busy(mut self, whole: &Self, need: impl Fn(&Claim) -> bool) -> Self {
        let pending = whole.pending_creates.iter();
        let pending = pending.filter(|(_, pending)| need(&pending.claim));
        let pending = pending.map(|(key, pending)| (key.clone(), pending.clone()));
        self.pending_creates.extend(pending);
        let calls = whole.calls.iter().filter(|(_, claim)| need(claim));
        let calls = calls.map(|(key, claim)| (key.clone(), claim.clone()));
        self.calls.extend(calls);
        self
    }
}
