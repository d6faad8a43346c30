//! A map that remembers a bounded number of keys, the most recently used ones.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Evicts the least recently used key when it is full.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    entries: HashMap<K, (u64, V)>,
    /// Keys by the number of their last use.
    used: BTreeMap<u64, K>,
    most: usize,
    uses: u64,
}

impl<K: Copy + Eq + Hash, V> Recent<K, V> {
    /// Remembers `most` keys.
    pub(super) fn new(most: usize) -> Self {
        Self {
            entries: HashMap::new(),
            used: BTreeMap::new(),
            most,
            uses: 0,
        }
    }

    /// The value of a key, created by `make` if the key is new.
    pub(super) fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        if let Some((used, _)) = self.entries.get(&key) {
            self.used.remove(used);
        } else if self.entries.len() >= self.most
            && let Some((_, oldest)) = self.used.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.used.insert(self.uses, key);
        let (used, value) = self.entries.entry(key).or_insert_with(|| (0, make()));
        *used = self.uses;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgets_what_was_not_used_for_longest() {
        let mut recent = Recent::new(2);
        *recent.entry("a", || 0) = 1;
        *recent.entry("b", || 0) = 2;
        assert_eq!(*recent.entry("a", || 0), 1);
        *recent.entry("c", || 0) = 3;
        assert_eq!(*recent.entry("a", || 0), 1);
        assert_eq!(*recent.entry("b", || 0), 0);
        assert_eq!((recent.entries.len(), recent.used.len()), (2, 2));
    }
}
