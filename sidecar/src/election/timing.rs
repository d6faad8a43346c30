//! The durations of leader election, and what follows from them.

use std::time::Duration;

use crate::duration::GoDuration;

/// The three durations, in a relation that works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    lease: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
    renewal_period: Duration,
}

/// Durations that cannot work together. The text names the flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// client-go: `leaseDuration must be greater than renewDeadline`
    #[error(
        "--leader-election-lease-duration ({lease}) must be greater than \
         --leader-election-renew-deadline ({renew})"
    )]
    LeaseNotLonger {
        /// The lease duration.
        lease: GoDuration,
        /// The renew deadline.
        renew: GoDuration,
    },
    /// client-go: `renewDeadline must be greater than retryPeriod*JitterFactor`
    #[error(
        "--leader-election-renew-deadline ({renew}) must be greater than 1.2 times \
         --leader-election-retry-period ({retry})"
    )]
    DeadlineNotLonger {
        /// The renew deadline.
        renew: GoDuration,
        /// The retry period.
        retry: GoDuration,
    },
    /// client-go: `retryPeriod must be greater than zero`
    #[error("--leader-election-retry-period ({0}) must be greater than zero")]
    RetryNotPositive(GoDuration),
    /// The lease has whole seconds, and the API server refuses 0.
    #[error("--leader-election-lease-duration ({0}) must be at least 1s")]
    LeaseTooShort(GoDuration),
}

impl Timing {
    /// Checks the flags' values, in client-go's order.
    ///
    /// # Errors
    /// Names the two flags that do not fit each other.
    pub fn new(
        lease: GoDuration,
        renew: GoDuration,
        retry: GoDuration,
    ) -> Result<Self, TimingError> {
        if lease <= renew {
            return Err(TimingError::LeaseNotLonger { lease, renew });
        }
        // renew <= 1.2 * retry, in integers that cannot overflow.
        if i128::from(renew.as_nanos()) * 5 <= i128::from(retry.as_nanos()) * 6 {
            return Err(TimingError::DeadlineNotLonger { renew, retry });
        }
        match (lease.to_std(), renew.to_std(), retry.to_std()) {
            (Some(lease), Some(renew_deadline), Some(retry_period)) if !retry_period.is_zero() => {
                if lease.as_secs() == 0 {
                    return Err(TimingError::LeaseTooShort(GoDuration::from_std(lease)));
                }
                Ok(Self {
                    lease,
                    renew_deadline,
                    retry_period,
                    renewal_period: retry_period,
                })
            }
            _ => Err(TimingError::RetryNotPositive(retry)),
        }
    }

    /// The same lease, held and renewed for `times` as long. Who waits for it asks as often as before.
    ///
    /// Safe where everybody who waits goes by the duration in the lease. client-go does; before some
    /// version it went by its own `--leader-election-lease-duration`.
    #[must_use]
    pub fn renewed_less_often(self, times: u32) -> Self {
        Self {
            lease: self.lease.saturating_mul(times),
            renew_deadline: self.renew_deadline.saturating_mul(times),
            renewal_period: self.renewal_period.saturating_mul(times),
            ..self
        }
    }

    /// How long a lease without a duration counts.
    pub(super) fn lease(&self) -> Duration {
        self.lease
    }

    /// How long a standby waits at least before it asks again.
    pub(super) fn retry_period(&self) -> Duration {
        self.retry_period
    }

    /// How long after its start a renewal is followed by the next one.
    pub(super) fn renewal_period(&self) -> Duration {
        self.renewal_period
    }

    /// What is written into the lease: whole seconds, and no less than what it is held for.
    pub fn lease_seconds(&self) -> u64 {
        let begun = u64::from(self.lease.subsec_nanos() > 0);
        self.lease.as_secs().saturating_add(begun)
    }

    /// How long after the start of the last successful renewal leadership is given up: client-go's
    /// renewal period plus renew deadline, but nine tenths of the lease at most.
    pub fn hold(&self) -> Duration {
        (self.renewal_period + self.renew_deadline).min(self.lease / 10 * 9)
    }

    /// How long one request may take: so that at least two fit into the renew deadline.
    pub fn request(&self) -> Duration {
        (self.renew_deadline / 2)
            .max(Duration::from_secs(1))
            .min(self.hold())
    }

    /// How soon after a failed renewal a leader tries again.
    pub fn hurry(&self) -> Duration {
        (self.retry_period / 5)
            .max(Duration::from_millis(200))
            .min(self.retry_period)
    }

    /// After this long without renewal a process that believes it leads is not healthy.
    pub fn unhealthy_after(&self) -> Duration {
        self.lease + Duration::from_secs(20)
    }
}
