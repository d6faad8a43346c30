//! Access to the controller's state for the crash simulation and its mutants.

use super::{Provisioner, Wakes};
use crate::plan::in_flight::{ClaimKey, InFlightState};
use crate::plan::journal::Journal;
use crate::plan::request::PinnedRequest;

impl Provisioner {
    pub(crate) fn in_flight_mut(&mut self) -> &mut InFlightState<PinnedRequest> {
        &mut self.in_flight
    }

    pub(crate) fn settle_again(&mut self, key: &ClaimKey) {
        self.settle(key, &mut Wakes::default());
    }

    pub(crate) fn hide_journal(&mut self) -> Option<Journal> {
        self.journal.take()
    }

    pub(crate) fn show_journal(&mut self, hidden: Option<Journal>) {
        self.journal = hidden;
    }

    /// Names of the state that is left: none, once all claims and volumes are at rest.
    pub(crate) fn left(&self) -> Vec<&'static str> {
        let mut left = self.in_flight.left();
        left.extend((!self.ownership_races.is_empty()).then_some("ownership_races"));
        left.extend(self.attached.is_awaited().then_some("volumes that wait"));
        left
    }
}
