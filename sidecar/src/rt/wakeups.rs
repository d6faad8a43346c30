//! How often the thread of a busy process is woken.
//!
//! Each message that wakes it costs a switch of threads, reads that find one message each, and answers that
//! leave in a packet of their own. With a moment's rest between two wake-ups several messages are read,
//! handled and answered together, as network cards do with interrupts; what that saves is in
//! `docs/figures/provisioner.md`. Who is woken now and then does not rest.

use std::time::{Duration, Instant};

/// Between two wake-ups of a busy process. Far below what an answer of the API server takes then.
const SPACING: Duration = Duration::from_millis(5);

/// Wake-ups in a row that need not rest: more than a few claims need that are made at once.
const BURST: u32 = 128;

/// The wake-ups there were: an allowance of [`BURST`], and one more each [`SPACING`].
#[derive(Debug)]
pub(super) struct WakeUps {
    /// When the allowance is whole again.
    whole: Instant,
}

impl WakeUps {
    pub(super) fn new(now: Instant) -> Self {
        Self { whole: now }
    }

    /// How long to rest before waiting for the next wake-up.
    pub(super) fn rest(&mut self, now: Instant) -> Duration {
        self.whole = self.whole.max(now) + SPACING;
        let used = self.whole.saturating_duration_since(now);
        used.saturating_sub(SPACING * BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wakes each `every` for `total`, not while it rests; how often, and the longest rest.
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
        // A few claims at once, each second.
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
