//! Decides when a lane's backlog is worth a log line.
//!
//! An unreported backlog looks like a hung sidecar. Pure: the shell only logs the results.

use std::time::{Duration, Instant};

/// A key that waits this long for a slot is reported.
pub const FIRST_REPORT: Duration = Duration::from_secs(30);

/// One lane's reports: at [`FIRST_REPORT`], and again each time the oldest wait has doubled.
#[derive(Debug)]
pub(super) struct Backlog {
    next: Duration,
}

impl Backlog {
    pub(super) fn new() -> Self {
        Self { next: FIRST_REPORT }
    }

    /// Whether to report now that the oldest wait is this long. Zero means that nothing waits.
    pub(super) fn observe(&mut self, oldest_wait: Duration) -> bool {
        if oldest_wait < FIRST_REPORT {
            self.next = FIRST_REPORT;
            return false;
        }
        if oldest_wait < self.next {
            return false;
        }
        while self.next <= oldest_wait {
            self.next = self.next.saturating_mul(2);
        }
        true
    }

    /// The next time to check if the key that has waited for `oldest_wait` keeps waiting.
    pub(super) fn look_again(&self, oldest_wait: Duration, now: Instant) -> Option<Instant> {
        now.checked_add(self.next.saturating_sub(oldest_wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_at_thirty_seconds_and_as_the_wait_doubles() {
        let mut backlog = Backlog::new();
        let reported: Vec<u64> = (0..1000)
            .filter(|&seconds| backlog.observe(Duration::from_secs(seconds)))
            .collect();
        assert_eq!(reported, [30, 60, 120, 240, 480, 960]);
    }

    #[test]
    fn a_late_look_reports_once() {
        let mut backlog = Backlog::new();
        assert!(backlog.observe(Duration::from_secs(500)));
        assert!(!backlog.observe(Duration::from_secs(900)));
        assert!(backlog.observe(Duration::from_secs(960)));
    }

    #[test]
    fn a_backlog_that_went_away_is_reported_anew() {
        let mut backlog = Backlog::new();
        assert!(backlog.observe(Duration::from_secs(30)));
        assert!(!backlog.observe(Duration::ZERO));
        assert!(backlog.observe(Duration::from_secs(31)));
    }
}
