//! Failures whose cause is known, and known to be over.

use std::hash::Hash;
use std::time::Instant;

use super::State;
use crate::queue::entry::{Blocked, Phase};

impl<K: Clone + Eq + Hash> State<K> {
    /// The key failed because of an outage: its back-off ends with that.
    ///
    /// Not once more before a back-off was served in full: what fails for a reason of its own while
    /// outages come and go costs twice the attempts at most.
    pub fn blocked(&mut self, key: &K) {
        if let Some(entry) = self.entries.get_mut(key)
            && entry.blocked == Blocked::No
        {
            entry.blocked = Blocked::Yes;
        }
    }

    /// The outage is over: calls off the back-offs of keys that failed because of it. Returns how
    /// many became ready.
    pub fn unblock(&mut self, now: Instant) -> usize {
        if self.shut_down {
            return 0;
        }
        let mut keys = Vec::new();
        for (key, entry) in &mut self.entries {
            // A run that is under way decides for itself.
            if entry.blocked == Blocked::Yes && !matches!(entry.phase, Phase::Running { .. }) {
                entry.blocked = Blocked::Over;
                if let Some(mark) = entry.backoff.take() {
                    self.timers.remove(&mark);
                    keys.push((mark, key.clone()));
                }
            }
        }
        // In the order in which they would have come.
        keys.sort_unstable_by_key(|(mark, _)| *mark);
        let ready = |(_, key): &(_, K)| self.make_ready(key, now);
        keys.iter().map(ready).filter(|ready| *ready).count()
    }
}
