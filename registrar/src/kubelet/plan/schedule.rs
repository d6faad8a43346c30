//! Pauses and deadlines: pure tables of kubelet's constants.

use std::time::Duration;

use sidecar::retry::RetryPolicy;

/// Pause of the reconciler after each pass.
pub const RECONCILE_PERIOD: Duration = Duration::from_secs(1);
/// Limit for connecting to a registration socket.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two attempts to connect within [`DIAL_TIMEOUT`].
pub const DIAL_PAUSE: Duration = Duration::from_secs(1);
/// Deadline of `GetInfo`.
pub const INFO_TIMEOUT: Duration = Duration::from_secs(1);
/// Deadline of `NotifyRegistrationStatus`.
pub const NOTIFY_TIMEOUT: Duration = Duration::from_secs(5);
/// Deadline of CSI calls (`NodeGetInfo`).
pub const CSI_TIMEOUT: Duration = Duration::from_secs(120);
/// Pause between two probes of the API server at start.
pub const API_POLL_PERIOD: Duration = Duration::from_secs(1);

/// The pause of one registration socket after failures: 500 ms, doubled up to 2 min 2 s, no jitter.
pub const OPERATION_BACK_OFF: RetryPolicy =
    RetryPolicy::new(Duration::from_millis(500), Duration::from_secs(122));

/// A fixed number of attempts with growing pauses between them.
#[derive(Clone, Copy, Debug)]
pub struct Attempts {
    /// Number of attempts in all.
    pub limit: u32,
    first: Duration,
    factor: u32,
}

/// Read-modify-write of Node or CSINode: 4 attempts, pauses 10, 50, 250 ms.
pub const WRITE_ATTEMPTS: Attempts = Attempts {
    limit: 4,
    first: Duration::from_millis(10),
    factor: 5,
};

/// CSINode at start: 6 attempts, pauses 30 ms, 240 ms, 1.92 s, 15.36 s, 122.88 s.
pub const INITIALIZE_ATTEMPTS: Attempts = Attempts {
    limit: 6,
    first: Duration::from_millis(30),
    factor: 8,
};

impl Attempts {
    /// The pause after `done` failed attempts, or `None` when there is no further one. `jitter`,
    /// from 0 up to 1, adds up to a tenth.
    #[must_use]
    pub fn pause(&self, done: u32, jitter: f64) -> Option<Duration> {
        if done == 0 || done >= self.limit {
            return None;
        }
        let pause = self
            .first
            .saturating_mul(self.factor.saturating_pow(done - 1));
        Some(pause.mul_f64(1.0 + 0.1 * jitter.clamp(0.0, 1.0)))
    }
}
