//! The state behind `/healthz/leader-election`.
//!
//! A process that believes it leads but has not renewed for too long hangs and should be restarted.
//! It normally exits long before, so this reports only processes that cannot even do that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::decide::Record;

/// The elector's health; clones share one state.
#[derive(Debug, Clone)]
pub struct Health {
    state: Arc<Mutex<State>>,
    limit: Duration,
    /// Name of the lease.
    lease: Arc<str>,
}

#[derive(Debug, Default)]
struct State {
    /// Start of the last renewal, `None` while standby.
    renewed: Option<Instant>,
    /// Why the API server refused the last request for the lease, if so.
    refused: Option<String>,
    /// The holder of the lease as last seen, and since when it says that it holds it.
    holder: Option<(String, String)>,
    /// `namespace/name` of the lease.
    lease: String,
}

impl Health {
    pub(super) fn new(limit: Duration, lease: &str) -> Self {
        Self {
            state: Arc::default(),
            limit,
            lease: lease.into(),
        }
    }

    /// Records the start of the last renewal, `None` for a standby.
    pub(super) fn set(&self, renewed: Option<Instant>) {
        self.lock().renewed = renewed;
    }

    /// Records why the API server refused the last request for the lease, if so.
    pub(super) fn set_refused(&self, refused: Option<String>) {
        self.lock().refused = refused;
    }

    /// Records the holder of the lease `namespace/name` as last seen, and since when it holds it.
    pub(super) fn set_seen(&self, lease: String, record: &Record) {
        let mut state = self.lock();
        state.lease = lease;
        state.holder = Some((record.holder.clone(), record.acquired.clone()));
    }

    /// The lease as last seen: `namespace/name`, the holder and since when it holds it; and whether this process leads.
    pub fn seen(&self) -> (String, Option<(String, String)>, bool) {
        let state = self.lock();
        let holder = state
            .holder
            .clone()
            .filter(|(holder, _)| !holder.is_empty());
        (state.lease.clone(), holder, state.renewed.is_some())
    }

    /// Why this process could not become leader. `None` while it leads: a leader goes on working.
    pub fn refusal(&self) -> Option<String> {
        let state = self.lock();
        state.refused.clone().filter(|_| state.renewed.is_none())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The problem at this moment of [`crate::clock::now`], in client-go's words.
    pub fn problem(&self, now: Instant) -> Option<String> {
        let renewed = self.lock().renewed;
        renewed
            .filter(|renewed| now.saturating_duration_since(*renewed) > self.limit)
            .map(|_| {
                format!(
                    "failed election to renew leadership on lease {}",
                    self.lease
                )
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Rows 64, 65, 66
    #[test]
    fn only_a_leader_that_stopped_renewing_is_unhealthy() {
        let (health, start) = (Health::new(Duration::from_secs(35), ""), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(health.problem(after(1000)), None, "standby");
        health.set(Some(start));
        assert_eq!(health.problem(after(35)), None);
        let problem = health.problem(after(36));
        assert_eq!(
            problem.as_deref(),
            Some("failed election to renew leadership on lease ")
        );
        health.set(Some(after(36)));
        assert_eq!(health.problem(after(37)), None);
        health.set(None);
        assert_eq!(health.problem(after(1000)), None);
    }

    #[test]
    fn a_refusal_matters_to_who_does_not_lead() {
        let health = Health::new(Duration::from_secs(35), "");
        assert_eq!(health.refusal(), None);
        health.set_refused(Some("403".into()));
        assert_eq!(health.refusal().as_deref(), Some("403"));
        assert_eq!(health.problem(Instant::now()), None, "a restart helps not");
        health.set(Some(Instant::now()));
        assert_eq!(health.refusal(), None);
        health.set(None);
        health.set_refused(None);
        assert_eq!(health.refusal(), None);
    }

    #[test]
    fn of_several_leases_the_one_is_named() {
        let (health, start) = (Health::new(Duration::from_secs(35), "ns/a"), Instant::now());
        health.set(Some(start));
        let problem = health.problem(start + Duration::from_secs(36));
        let expected = "failed election to renew leadership on lease ns/a";
        assert_eq!(problem.as_deref(), Some(expected));
    }
}
