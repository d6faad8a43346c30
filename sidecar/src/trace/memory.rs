//! A bounded map that forgets its oldest entries. Pure.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Maximum number of entries; an evicted entry only affects traces.
const MOST: usize = 4096;

/// A map of at most [`MOST`] entries.
pub(super) struct Memory<K, V> {
    map: HashMap<K, (u64, V)>,
    /// Keys by age.
    order: BTreeMap<u64, K>,
    next: u64,
}

impl<K, V> Default for Memory<K, V> {
    fn default() -> Self {
        Self {
            map: HashMap::new(),
            order: BTreeMap::new(),
            next: 0,
        }
    }
}

impl<K: Clone + Eq + Hash, V> Memory<K, V> {
    /// Inserts an entry; returns whether the key is new.
    pub(super) fn insert(&mut self, key: K, value: V) -> bool {
        self.next += 1;
        let before = self.map.insert(key.clone(), (self.next, value));
        if let Some((age, _)) = &before {
            self.order.remove(age);
        }
        self.order.insert(self.next, key);
        if self.order.len() > MOST
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.map.remove(&oldest);
        }
        before.is_none()
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let (age, value) = self.map.remove(key)?;
        self.order.remove(&age);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o_14_of_many_objects_the_oldest_is_forgotten() {
        let mut memory = Memory::default();
        for object in 0..MOST {
            assert!(memory.insert(object, ()));
        }
        assert!(!memory.insert(0, ()));
        assert!(memory.insert(MOST, ()));
        assert_eq!(memory.remove(&1), None);
        for object in [0, 2, MOST - 1, MOST] {
            assert_eq!(memory.remove(&object), Some(()), "{object}");
        }
        assert_eq!((memory.map.len(), memory.order.len()), (MOST - 4, MOST - 4));
    }
}
