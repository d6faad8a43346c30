//! Another process that works with the same journal, without leader election.
//!
//! A process that starts takes the journal, since it is as a rule the successor of one that has ended. The process that
//! lost it waits, and takes it back from a process that writes no heartbeat. That is as safe as any start: each write
//! replaces the version that was read, a process that still lives finds the other's epoch before its next call, and its
//! requests are in the journal. So the times are no matter of correctness: they keep two live processes from taking
//! turns all the time.

use std::time::{Duration, Instant};

use super::{Found, Journal};

/// Interval of writes while the journal has unsettled entries, even without a change.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// A process that has written nothing for this long has ended, or has nothing to do.
const SILENCE: Duration = Duration::from_secs(60);

/// The last observation of the other process.
#[derive(Clone, Debug, Default)]
pub struct Rival {
    /// The version that was seen last, and when it was first seen.
    seen: Option<(String, Instant)>,
}

impl Rival {
    /// Whether the journal may be taken, after its first object was read. `None` is a read without answer, which resets
    /// the observation.
    pub fn is_silent(&mut self, object: Option<Option<&Found>>, now: Instant) -> bool {
        let Some(object) = object else {
            self.seen = None;
            return false;
        };
        // Somebody has deleted it: no process owns it.
        let Some(found) = object else { return true };
        match &self.seen {
            Some((version, since)) if *version == found.version => {
                now.saturating_duration_since(*since) >= SILENCE
            }
            _ => {
                self.seen = Some((found.version.clone(), now));
                false
            }
        }
    }
}

impl Journal {
    /// Makes the first object due if anything is open, so that other processes see that this one lives.
    pub fn heartbeat(&mut self) {
        if !self.is_open() || self.objects.iter().all(|object| object.is_empty()) {
            return;
        }
        let change = self.bump();
        if let Some(first) = self.objects.first_mut() {
            first.changed = change;
            first.due = change;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_10_a_rival_is_silent_once_the_same_version_was_seen_for_a_minute() {
        let mut rival = Rival::default();
        let start = Instant::now();
        let found = |version: &str| Found {
            version: version.to_owned(),
            ..Found::default()
        };
        let (one, two) = (found("1"), found("2"));
        for (second, object, silent) in [
            (0, Some(Some(&one)), false),
            (59, Some(Some(&one)), false),
            (60, Some(Some(&two)), false),
            (119, Some(Some(&two)), false),
            // The rival may have written and reverted meanwhile: the observation starts again.
            (120, None, false),
            (121, Some(Some(&two)), false),
            (180, Some(Some(&two)), false),
            (181, Some(Some(&two)), true),
            (182, Some(Some(&one)), false),
            (183, Some(None), true),
        ] {
            let now = start + Duration::from_secs(second);
            assert_eq!(rival.is_silent(object, now), silent, "after {second} s");
        }
        assert!(HEARTBEAT * 3 < SILENCE, "a heartbeat or two may be late");
    }
}
