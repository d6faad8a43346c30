//! One controller call at a time for a volume and node.
//!
//! Separate, because two VolumeAttachments can name the same volume and node, and an attachment
//! can be deleted and made anew under another name: the queue alone does not keep their calls
//! apart.

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

/// The calls in flight and who waits for their end.
#[derive(Debug)]
pub struct Flights<K> {
    busy: HashMap<Target, Vec<K>>,
}

impl<K> Default for Flights<K> {
    fn default() -> Self {
        Self {
            busy: HashMap::new(),
        }
    }
}

impl<K: Eq + Hash> Flights<K> {
    /// Whether the call may start. If not, `key` is handed back by the [`end`](Self::end) of the
    /// call that is in flight.
    #[must_use]
    pub fn begin(&mut self, target: &Target, key: K) -> bool {
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

    /// The call ended: who waited for it must be looked at again.
    #[must_use]
    pub fn end(&mut self, target: &Target) -> Vec<K> {
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
