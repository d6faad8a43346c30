//! The current mode, and the switch to a restarted driver.

use super::{HealthMonitor, Informed, Key, Lists, Notice, Wakes, wake};
use crate::model::Conditions;
use crate::plan::mode::Mode;
use crate::plan::pace::Pace;

impl HealthMonitor {
    /// The calls that the driver gets now.
    pub(super) fn asks(&self) -> Mode {
        match self.mode {
            Some(mode) if !self.refuses => mode,
            Some(Mode::ListHealth { .. }) => Mode::ListHealth { get: false },
            Some(_) | None => Mode::Nothing,
        }
    }

    /// Whether each volume is queried individually.
    pub(super) fn asks_each(&self) -> bool {
        let mode = self.asks();
        mode.can_get() && (!mode.lists() || self.lists.next.is_some())
    }

    /// Switches to the calls of another driver and drops the state about the old one. Claims keep their conditions.
    pub(super) fn enter(&mut self, mode: Mode, due: &mut Wakes) {
        if self.mode == Some(mode) {
            return;
        }
        self.mode = Some(mode);
        self.refuses = false;
        self.lists = Lists::default();
        self.pace = Pace::default();
        self.failing.clear();
        self.asked.clear();
        self.reports.clear();
        self.counts_no_more(due);
        due.notices.push(Notice::Mode(mode));
    }

    /// The driver is reachable again, perhaps with other capabilities. Volumes whose query could not reach it come
    /// first, but at the usual pace.
    pub(super) fn driver_is_back(&mut self, informers: Informed<'_>, due: &mut Wakes) {
        self.refuses = false;
        self.generation += 1;
        self.enter(informers.driver().mode, due);
        let asks_each = self.asks_each();
        for (handle, _) in self.failing.extract_if(|_, failing| failing.away) {
            if asks_each {
                self.pace.fresh(&handle);
            }
        }
        wake(Key::Cycle, due);
    }

    /// Removes the volumes from the metric once the driver no longer reports their health.
    pub(super) fn counts_no_more(&mut self, due: &mut Wakes) {
        let asks = self.asks();
        if asks.is_older() || asks == Mode::Nothing {
            for (_, before) in self.unhealthy.drain() {
                let now = Conditions::default();
                due.notices.push(Notice::Health(before, now));
            }
        }
    }
}
