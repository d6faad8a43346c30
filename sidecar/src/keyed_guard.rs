//! One operation at a time per target, with the keys that wait for its end.

use std::collections::HashMap;
use std::hash::Hash;

/// The targets with an operation in flight, each with the keys that wait for its end.
#[derive(Clone, Debug)]
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
    /// Whether an operation on `target` may start. If not, [`end`](Self::end) of the operation in
    /// flight returns `key`.
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

    /// Ends the operation on `target` and returns the keys to requeue.
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
