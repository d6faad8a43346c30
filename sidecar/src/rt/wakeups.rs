//! Limits how often the thread of a busy process wakes up.
//!
//! Each message that wakes it costs a thread switch, reads that find one message each, and responses sent
//! in a packet of their own. With a short rest between two wake-ups several messages are read, handled and
//! answered together, as network cards do with interrupts; `make bench BENCH='csi-provisioner provision'` shows the effect. A
//! process that wakes up only now and then does not rest.

use std::time::{Duration, Instant};

/// Minimum interval of wake-ups in a busy process, far below the API server's response time under such
/// load.
const SPACING: Duration = Duration::from_millis(5);

/// Number of wake-ups in a row without rest: more than a few simultaneous claims need.
const BURST: u32 = 128;

/// Accounts for wake-ups: an allowance of [`BURST`], which grows by one each [`SPACING`].
#[derive(Debug)]
pub(super) struct WakeUps {
    /// When the allowance is complete again.
    whole: Instant,
}

impl WakeUps {
    pub(super) fn new(now: Instant) -> Self {
        Self { whole: now }
    }

    /// The rest before waiting for the next wake-up.
    pub(super) fn rest(&mut self, now: Instant) -> Duration {
        self.whole = self.whole.max(now) + SPACING;
        let used = self.whole.saturating_duration_since(now);
        used.saturating_sub(SPACING * BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wakes up at the interval `every` for `total`, except while resting; returns the number of wake-ups
    /// and the longest rest.
    fn wake(every: Duration, total: Duration) -> (u32, Duration) {
        let start = Instant::now();
        let mut wakeups = WakeUps::new(start);
        let (mut now, mut count, mut longest) = (start, 0, Duration::ZERO);
        while now - start < total {
            let rest = wakeups.rest(now);
            longest = longest.max(rest);
            count += 1;
            now += every.max(rest);
        }
        (count, longest)
    }

    #[test]
    fn who_is_woken_now_and_then_does_not_rest() {
        let second = Duration::from_secs(1);
        assert_eq!(wake(SPACING, second), (200, Duration::ZERO));
        // A few simultaneous claims, each second.
        let at_once = Duration::from_micros(200) * BURST;
        assert_eq!(
            wake(Duration::from_micros(200), at_once),
            (BURST, Duration::ZERO)
        );
    }

    #[test]
    fn who_is_woken_all_the_time_rests_for_a_moment() {
        let (count, longest) = wake(Duration::from_micros(50), Duration::from_secs(1));
        assert!((200..=200 + BURST + 2).contains(&count), "{count}");
        assert!(longest <= SPACING, "{longest:?}");
    }
}
