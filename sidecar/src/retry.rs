//! Delays after a number of failures.
//!
//! The only file that uses the crate `backoff`, whose defaults would give up after a quarter of an
//! hour; none of its types leaves this file, so that the crate can be replaced here alone. Callers
//! keep a failure count instead of a state, and provide the randomness.

use std::time::Duration;

use backoff::ExponentialBackoffBuilder;
use backoff::backoff::Backoff;

/// Exponential delays: `base`, twice that, and so on up to `cap`, the same numbers as client-go's
/// per-item limiter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// The delay after the first failure.
    pub base: Duration,
    /// The longest delay.
    pub cap: Duration,
    /// A random part of `base` times this is subtracted from each delay, which never falls below
    /// zero. Zero, as in most sidecars, makes the sequence exact.
    pub jitter: f64,
}

/// Doublings after which every sensible base has reached its cap (2^64 times the base).
const MOST_DOUBLINGS: u32 = 64;

impl RetryPolicy {
    /// A policy without jitter.
    pub const fn new(base: Duration, cap: Duration) -> Self {
        Self {
            base,
            cap,
            jitter: 0.0,
        }
    }

    /// The delay after `failures` failures in a row.
    ///
    /// `unit_random` is in `[0, 1)` and counts only with jitter. The first failure is number one;
    /// zero failures need no delay.
    pub fn delay(&self, failures: u32, unit_random: f64) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let exact = self.exponential(doublings.min(MOST_DOUBLINGS));
        let share = (self.jitter * unit_random).clamp(0.0, 1.0);
        let off = Duration::try_from_secs_f64(self.base.as_secs_f64() * share);
        exact.saturating_sub(off.unwrap_or_default())
    }

    fn exponential(&self, doublings: u32) -> Duration {
        // client-go caps the first delay as well; backoff would return it uncapped.
        if self.base >= self.cap {
            return self.cap;
        }
        let mut sequence = ExponentialBackoffBuilder::new()
            .with_initial_interval(self.base)
            .with_multiplier(2.0)
            .with_randomization_factor(0.0)
            .with_max_interval(self.cap)
            .with_max_elapsed_time(None)
            .build();
        let mut delay = self.base;
        for _ in 0..=doublings {
            delay = sequence.next_backoff().unwrap_or(self.cap);
        }
        // With randomization off backoff still adds up to one nanosecond.
        let nanos = delay.as_nanos();
        let step = self.base.as_nanos().max(1);
        let exact = if delay >= self.cap {
            self.cap.as_nanos()
        } else {
            nanos - nanos % step
        };
        u64::try_from(exact).map_or(self.cap, Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// client-go, `ItemExponentialFailureRateLimiter`: base · 2^failures, capped.
    fn client_go(base: Duration, cap: Duration, earlier_failures: u32) -> Duration {
        let doubled = 2_u32
            .checked_pow(earlier_failures.min(31))
            .and_then(|n| base.checked_mul(n));
        let grown = (0..earlier_failures.saturating_sub(31)).fold(doubled, |delay, _| {
            delay.and_then(|delay| delay.checked_mul(2))
        });
        grown.map_or(cap, |delay| delay.min(cap))
    }

    #[test]
    fn the_whole_sequence_is_client_gos() {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        for (base, cap) in [
            (Duration::from_secs(1), minutes(5)),
            (Duration::from_millis(5), Duration::from_secs(1000)),
            (Duration::from_secs(20), Duration::from_secs(60)),
            (Duration::from_millis(333), Duration::from_secs(10)),
            (Duration::from_secs(60), Duration::from_secs(10)),
            (Duration::from_nanos(1), Duration::from_secs(1)),
            (Duration::from_nanos(7), Duration::from_secs(1 << 33)),
        ] {
            let policy = RetryPolicy::new(base, cap);
            for failures in 1..200 {
                assert_eq!(
                    policy.delay(failures, 0.5),
                    client_go(base, cap, failures - 1),
                    "{base:?} {cap:?} {failures}"
                );
            }
            assert_eq!(policy.delay(u32::MAX, 0.0), cap);
        }
    }

    #[test]
    fn defaults_of_the_sidecars_in_seconds() {
        let policy = RetryPolicy::new(Duration::from_secs(1), Duration::from_secs(300));
        let seconds: Vec<_> = (0..12).map(|n| policy.delay(n, 0.0).as_secs()).collect();
        assert_eq!(seconds, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    }

    #[test]
    fn jitter_takes_off_a_part_of_the_base_and_never_goes_below_zero() {
        let policy = RetryPolicy {
            jitter: 1.0,
            ..RetryPolicy::new(Duration::from_secs(1), Duration::from_secs(300))
        };
        assert_eq!(policy.delay(3, 0.0), Duration::from_secs(4));
        assert_eq!(policy.delay(3, 0.5), Duration::from_millis(3500));
        assert_eq!(policy.delay(1, 1.0), Duration::ZERO);
        assert_eq!(policy.delay(1, 7.0), Duration::ZERO);
        assert_eq!(policy.delay(1, f64::NAN), policy.delay(1, 0.0));
    }

    #[test]
    fn a_zero_base_means_no_delay() {
        let policy = RetryPolicy::new(Duration::ZERO, Duration::from_secs(1));
        assert_eq!(policy.delay(10, 0.0), Duration::ZERO);
        let nothing = RetryPolicy::new(Duration::from_secs(1), Duration::ZERO);
        assert_eq!(nothing.delay(10, 0.0), Duration::ZERO);
    }
}
