//! Keys that wait a fixed time before they are tried again.
//!
//! The provisioner and the resizer add claims whose request the driver reported as infeasible. Pure:
//! time is an argument, and the owner calls [`SlowSet::sweep`]. Nothing is persisted.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::part::only;

/// How often the owner should call [`SlowSet::sweep`].
pub const SWEEP_INTERVAL: Duration = Duration::from_millis(100);

/// A key's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When the key was added.
    pub added: Instant,
    /// UID of the storage class or attributes class that was tried; with another one a retry is
    /// worthwhile.
    pub class_uid: String,
}

/// Keys with the time they were added, forgotten after a retention time.
#[derive(Clone, Debug)]
pub struct SlowSet<K> {
    retention: Duration,
    entries: HashMap<K, Entry>,
}

impl<K: Eq + Hash> SlowSet<K> {
    /// An empty set whose entries last for `retention`.
    pub fn new(retention: Duration) -> Self {
        Self {
            retention,
            entries: HashMap::new(),
        }
    }

    /// The part about one key.
    #[must_use]
    pub fn about(&self, key: &K) -> Self
    where
        K: Clone,
    {
        Self {
            retention: self.retention,
            entries: only(self.entries.get_key_value(key)),
        }
    }

    /// Adds a key. Returns `false` if the key is already present, even expired, and keeps its entry.
    pub fn add(&mut self, key: K, entry: Entry) -> bool {
        match self.entries.entry(key) {
            std::collections::hash_map::Entry::Occupied(_) => false,
            std::collections::hash_map::Entry::Vacant(vacant) => {
                vacant.insert(entry);
                true
            }
        }
    }

    /// The entry, expired or not.
    pub fn get(&self, key: &K) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Whether the key is present and not expired at `now`.
    pub fn contains(&self, key: &K, now: Instant) -> bool {
        let age = |entry: &Entry| now.saturating_duration_since(entry.added);
        self.entries
            .get(key)
            .is_some_and(|entry| age(entry) < self.retention)
    }

    /// Removes the key.
    pub fn remove(&mut self, key: &K) {
        self.entries.remove(key);
    }

    /// Time until the key expires; zero if it has expired or is absent.
    pub fn time_remaining(&self, key: &K, now: Instant) -> Duration {
        self.entries.get(key).map_or(Duration::ZERO, |entry| {
            self.retention
                .saturating_sub(now.saturating_duration_since(entry.added))
        })
    }

    /// Removes all entries that have expired at `now`.
    pub fn sweep(&mut self, now: Instant) {
        let retention = self.retention;
        self.entries
            .retain(|_, entry| now.saturating_duration_since(entry.added) < retention);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(added: Instant) -> Entry {
        Entry {
            added,
            class_uid: "class".to_owned(),
        }
    }

    #[test]
    fn row_90_adding_twice_keeps_the_first_time() {
        let start = Instant::now();
        let later = start + Duration::from_secs(1);
        let mut set = SlowSet::new(Duration::from_millis(500));
        assert!(set.add("a", entry(start)));
        assert!(
            !set.add("a", entry(later)),
            "also when expired and not yet swept"
        );
        assert_eq!(set.get(&"a").unwrap().added, start);
    }

    #[test]
    fn row_91_contains_ends_with_the_retention() {
        let start = Instant::now();
        let mut set = SlowSet::new(Duration::from_millis(200));
        set.add("a", entry(start));
        assert!(set.contains(&"a", start + Duration::from_millis(150)));
        assert!(!set.contains(&"a", start + Duration::from_millis(200)));
        assert!(!set.contains(&"a", start + Duration::from_millis(300)));
    }

    #[test]
    fn row_92_an_absent_key_has_no_time_left() {
        let set = SlowSet::<&str>::new(Duration::from_secs(1));
        assert_eq!(set.time_remaining(&"a", Instant::now()), Duration::ZERO);
    }

    #[test]
    fn sweeping_forgets_expired_keys_only() {
        let start = Instant::now();
        let mut set = SlowSet::new(Duration::from_millis(200));
        set.add("old", entry(start));
        set.add("new", entry(start + Duration::from_millis(100)));
        set.sweep(start + Duration::from_millis(250));
        assert!(set.get(&"old").is_none());
        assert!(set.get(&"new").is_some());
        assert_eq!(
            set.time_remaining(&"new", start + Duration::from_millis(250)),
            Duration::from_millis(50)
        );
        set.remove(&"new");
        assert!(set.get(&"new").is_none());
    }
}
