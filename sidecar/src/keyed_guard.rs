//! One thing at a time: who is at work on a target, and who waits for the end of it.

use std::collections::HashMap;
use std::hash::Hash;

/// What is in flight, by what it is about, and who waits for its end.
#[derive(Debug)]
pub struct KeyedGuards<T, K> {
    busy: HashMap<T, Vec<K>>,
}

impl<T, K> Default for KeyedGuards<T, K> {
    fn default() -> Self {
        Self {
            busy: HashMap::new(),
        }
    }
}

impl<T: Clone + Eq + Hash, K: Eq> KeyedGuards<T, K> {
    /// Whether it may start. If not, `key` is handed back by the [`end`](Self::end) of what is in
    /// flight.
    #[must_use]
    pub fn begin(&mut self, target: &T, key: K) -> bool {
        match self.busy.get_mut(target) {
            Some(waiting) => {
                if !waiting.contains(&key) {
                    waiting.push(key);
                }
                false
            }
            None => {
                self.busy.insert(target.clone(), Vec::new());
                true
            }
        }
    }

    /// It ended: who waited for it must be looked at again.
    #[must_use]
    pub fn end(&mut self, target: &T) -> Vec<K> {
        self.busy.remove(target).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_for_the_same_target_waits_for_the_first() {
        let mut flights = KeyedGuards::default();
        assert!(flights.begin(&"a", 1));
        assert!(flights.begin(&"b", 2), "another target");
        assert!(!flights.begin(&"a", 3));
        assert!(!flights.begin(&"a", 3));
        assert_eq!(flights.end(&"a"), [3]);
        assert!(flights.begin(&"a", 3));
        assert!(flights.end(&"b").is_empty());
    }
}
