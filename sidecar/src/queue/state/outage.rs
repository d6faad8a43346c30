//! Failures caused by an outage, and their retry when it ends.

use std::hash::Hash;
use std::time::Instant;

use super::State;
use crate::queue::entry::{Blocked, Phase};

impl<K: Clone + Eq + Hash> State<K> {
    /// Records that an outage made the key fail: its back-off ends with the outage.
    ///
    /// At most once until a back-off was served in full: a key that fails for other reasons while
    /// outages come and go costs at most twice the attempts.
    pub fn blocked(&mut self, key: &K) {
        if let Some(entry) = self.entries.get_mut(key)
            && entry.blocked == Blocked::No
        {
            entry.blocked = Blocked::Yes;
        }
    }

    /// Cancels, at the end of the outage, the back-offs of keys that failed because of it. Returns
    /// how many became ready.
    pub fn unblock(&mut self, now: Instant) -> usize {
        if self.shut_down {
            return 0;
        }
        let mut keys = Vec::new();
        for (key, entry) in &mut self.entries {
            // A run in progress decides for itself.
            if entry.blocked == Blocked::Yes && !matches!(entry.phase, Phase::Running { .. }) {
                entry.blocked = Blocked::Over;
                if let Some(mark) = entry.backoff.take() {
                    self.timers.remove(&mark);
                    keys.push((mark, key.clone()));
                }
            }
        }
        // In the order in which their back-offs would have ended.
        keys.sort_unstable_by_key(|(mark, _)| *mark);
        let ready = |(_, key): &(_, K)| self.make_ready(key, now);
        keys.iter().map(ready).filter(|ready| *ready).count()
    }
}
