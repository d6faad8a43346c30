//! Keys that wait for an object to appear or change, in addition to their back-off.
//!
//! Indexed from both sides: ending one wait does not scan the others.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// Keys of work and the triggers that they wait for.
#[derive(Clone, Debug)]
pub struct Waits<Key, Trigger> {
    by_trigger: HashMap<Trigger, BTreeSet<Key>>,
    by_key: HashMap<Key, Vec<Trigger>>,
}

impl<Key, Trigger> Default for Waits<Key, Trigger> {
    fn default() -> Self {
        Self {
            by_trigger: HashMap::new(),
            by_key: HashMap::new(),
        }
    }
}

impl<Key: Clone + Eq + Hash + Ord, Trigger: Clone + Eq + Hash> Waits<Key, Trigger> {
    /// Makes `key` wait for this trigger, in addition to those it already waits for.
    pub fn wait(&mut self, key: &Key, trigger: Trigger) {
        let keys = self.by_trigger.entry(trigger.clone()).or_default();
        if keys.insert(key.clone()) {
            self.by_key.entry(key.clone()).or_default().push(trigger);
        }
    }

    /// Ends all waits of `key` and returns its triggers.
    pub fn forget(&mut self, key: &Key) -> Vec<Trigger> {
        let triggers = self.by_key.remove(key).unwrap_or_default();
        for trigger in &triggers {
            if let Some(keys) = self.by_trigger.get_mut(trigger) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_trigger.remove(trigger);
                }
            }
        }
        triggers
    }

    /// The keys that wait for this trigger, without ending their waits: other events may come before
    /// their next attempts begin.
    pub fn of(&self, trigger: &Trigger) -> impl Iterator<Item = &Key> {
        self.by_trigger.get(trigger).into_iter().flatten()
    }

    /// Ends the waits for this trigger, whose object has appeared or changed, and returns the keys.
    #[must_use]
    pub fn triggered(&mut self, trigger: &Trigger) -> BTreeSet<Key> {
        let keys = self.by_trigger.remove(trigger).unwrap_or_default();
        for key in &keys {
            if let Some(triggers) = self.by_key.get_mut(key) {
                triggers.retain(|other| other != trigger);
                if triggers.is_empty() {
                    self.by_key.remove(key);
                }
            }
        }
        keys
    }

    /// The triggers that `key` waits for.
    pub fn awaited_by(&self, key: &Key) -> &[Trigger] {
        self.by_key.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// All triggers that keys wait for.
    pub fn triggers(&self) -> impl Iterator<Item = &Trigger> {
        self.by_trigger.keys()
    }

    /// Whether no key waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty() && self.by_trigger.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(pairs: &[(&'static str, char)]) -> Waits<&'static str, char> {
        let mut waits = Waits::default();
        for (key, trigger) in pairs {
            waits.wait(key, *trigger);
        }
        waits
    }

    #[test]
    fn who_is_triggered_waits_for_its_other_triggers_only() {
        let mut waits = waits(&[("one", 'a'), ("one", 'b'), ("two", 'a'), ("one", 'a')]);
        assert_eq!(waits.of(&'a').collect::<Vec<_>>(), [&"one", &"two"]);
        assert_eq!(waits.triggered(&'a'), BTreeSet::from(["one", "two"]));
        assert_eq!(waits.triggered(&'a'), BTreeSet::new());
        assert_eq!(waits.triggers().collect::<Vec<_>>(), [&'b']);
        assert_eq!(waits.triggered(&'b'), BTreeSet::from(["one"]));
        assert!(waits.is_empty());
    }

    #[test]
    fn who_is_forgotten_leaves_the_others() {
        let mut waits = waits(&[("one", 'a'), ("one", 'b'), ("two", 'a')]);
        assert_eq!(waits.forget(&"one"), ['a', 'b']);
        assert_eq!(waits.forget(&"one"), []);
        assert_eq!(waits.of(&'b').count(), 0);
        assert_eq!(waits.of(&'a').collect::<Vec<_>>(), [&"two"]);
        waits.forget(&"two");
        assert!(waits.is_empty());
    }
}
