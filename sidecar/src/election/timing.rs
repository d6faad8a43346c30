//! The durations of leader election, and those derived from them.

use std::time::Duration;

use crate::duration::GoDuration;

/// The three durations, validated against each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    lease: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
    renewal_period: Duration,
}

/// The durations contradict each other. The message names the flags.
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
    /// The Lease stores whole seconds, and the API server refuses 0.
    #[error("--leader-election-lease-duration ({0}) must be at least 1s")]
    LeaseTooShort(GoDuration),
}

impl Timing {
    /// Validates the flags' values, in client-go's order.
    ///
    /// # Errors
    /// Names the two flags that contradict each other.
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

    /// The same lease, held and renewed for `times` as long. Standbys poll it as often as before.
    ///
    /// Safe where all standbys use the duration in the lease. client-go does; earlier versions used
    /// their own `--leader-election-lease-duration`.
    #[must_use]
    pub fn renewed_less_often(self, times: u32) -> Self {
        Self {
            lease: self.lease.saturating_mul(times),
            renew_deadline: self.renew_deadline.saturating_mul(times),
            renewal_period: self.renewal_period.saturating_mul(times),
            ..self
        }
    }

    /// The duration of a lease that names none.
    pub(super) fn lease(&self) -> Duration {
        self.lease
    }

    /// Minimum pause of a standby between two attempts.
    pub(super) fn retry_period(&self) -> Duration {
        self.retry_period
    }

    /// Time from the start of a renewal to the next one.
    pub(super) fn renewal_period(&self) -> Duration {
        self.renewal_period
    }

    /// The duration written into the lease: whole seconds, and no less than the time it is held.
    pub fn lease_seconds(&self) -> u64 {
        let begun = u64::from(self.lease.subsec_nanos() > 0);
        self.lease.as_secs().saturating_add(begun)
    }

    /// Leadership ends this long after the start of the last successful renewal: client-go's renewal
    /// period plus renew deadline, but at most nine tenths of the lease.
    pub fn hold(&self) -> Duration {
        (self.renewal_period + self.renew_deadline).min(self.lease / 10 * 9)
    }

    /// Time limit of one request, such that at least two fit into the renew deadline.
    pub fn request(&self) -> Duration {
        (self.renew_deadline / 2)
            .max(Duration::from_secs(1))
            .min(self.hold())
    }

    /// Pause of a leader after a failed renewal.
    pub fn hurry(&self) -> Duration {
        (self.retry_period / 5)
            .max(Duration::from_millis(200))
            .min(self.retry_period)
    }

    /// A process that believes it leads is unhealthy after this long without renewal.
    pub fn unhealthy_after(&self) -> Duration {
        self.lease + Duration::from_secs(20)
    }
}
