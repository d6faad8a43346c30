//! How many questions are answered. Pure: time is an argument.
//!
//! The thread that does the work renders the answers, and one takes the longer the more objects fail. Answers get a
//! twentieth of its time at most, so that whoever asks in a loop does not slow the work down.

use std::time::{Duration, Instant};

/// Questions that are answered at once after a pause.
const BURST: u32 = 50;
/// Time after which one more is answered.
const EACH: Duration = Duration::from_millis(50);

/// The thread works this many times as long as it answered before it answers again.
const SHARE: u32 = 19;
/// The longest that an answer counts as: a stalled machine may hold up any of them.
const LONGEST: Duration = Duration::from_millis(200);

/// A bucket of questions.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// When the bucket is full again; `None` if it is.
    full: Option<Instant>,
}

impl Rate {
    /// Whether a question may be answered now; counts it if so.
    pub(super) fn admit(&mut self, now: Instant) -> bool {
        let full = self.full.filter(|full| *full > now).unwrap_or(now);
        let Some(next) = full.checked_add(EACH) else {
            return false;
        };
        let admits = next.saturating_duration_since(now) <= EACH * BURST;
        if admits {
            self.full = Some(next);
        }
        admits
    }

    /// An answer took so long.
    pub(super) fn took(&mut self, time: Duration, now: Instant) {
        let full = self.full.filter(|full| *full > now).unwrap_or(now);
        self.full = full.checked_add(time.min(LONGEST) * SHARE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w_16_a_burst_is_answered_and_then_twenty_a_second() {
        let (mut rate, start) = (Rate::default(), Instant::now());
        let answered = |rate: &mut Rate, now| (0..1_000).filter(|_| rate.admit(now)).count();
        assert_eq!(answered(&mut rate, start), 50);
        assert_eq!(answered(&mut rate, start + Duration::from_secs(1)), 20);
        let later = start + Duration::from_secs(100);
        assert_eq!(answered(&mut rate, later), 50);
    }

    #[test]
    fn w_16_slow_answers_get_a_twentieth_of_the_time() {
        let (mut rate, start) = (Rate::default(), Instant::now());
        let slow = Duration::from_millis(40);
        let (mut now, mut answering) = (start, Duration::ZERO);
        while now < start + Duration::from_secs(60) {
            if rate.admit(now) {
                now += slow;
                answering += slow;
                rate.took(slow, now);
            } else {
                now += Duration::from_millis(1);
            }
        }
        let limit = (now - start) / 20 + EACH * BURST;
        assert!(answering <= limit, "{answering:?} of {:?}", now - start);
        // A machine that stands still for a minute in the middle of an answer.
        let mut rate = Rate::default();
        rate.took(Duration::from_mins(1), start);
        assert!(rate.admit(start + LONGEST * SHARE));
    }
}
