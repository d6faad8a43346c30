//! One thing at a time: one controller call for a volume and node, one patch of a volume.
//!
//! Separate, because two VolumeAttachments can name the same volume and node, and an attachment
//! can be deleted and made anew under another name: the queue alone does not keep them apart.

use std::collections::HashMap;
use std::hash::Hash;

use crate::model::Text;

/// What a call is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Volume handle.
    pub volume: Text,
    /// The node as the driver knows it.
    pub node: Text,
}

/// What is in flight, by what it is about, and who waits for its end.
#[derive(Debug)]
pub struct Flights<T, K> {
    busy: HashMap<T, Vec<K>>,
}

impl<T, K> Default for Flights<T, K> {
    fn default() -> Self {
        Self {
            busy: HashMap::new(),
        }
    }
}

impl<T: Clone + Eq + Hash, K: Eq> Flights<T, K> {
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
    fn a_second_call_for_the_same_target_waits_for_the_first() {
        let target = |node: &str| Target {
            volume: "v".into(),
            node: node.into(),
        };
        let mut flights = Flights::default();
        assert!(flights.begin(&target("a"), 1));
        assert!(flights.begin(&target("b"), 2), "another node");
        assert!(!flights.begin(&target("a"), 3));
        assert!(!flights.begin(&target("a"), 3));
        assert_eq!(flights.end(&target("a")), [3]);
        assert!(flights.begin(&target("a"), 3));
        assert!(flights.end(&target("b")).is_empty());
    }
}
