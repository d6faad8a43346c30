//! PersistentVolumes by volume handle, which drivers use in reports. Several volumes may share one handle.

use std::collections::{BTreeSet, HashMap};

use crate::model::Text;

/// Names of PersistentVolumes, by handle.
#[derive(Clone, Debug, Default)]
pub struct Volumes {
    /// One volume of each handle. There may be 50,000.
    one: HashMap<Text, Text>,
    /// The other volumes of handles that are shared.
    more: BTreeSet<(Text, Text)>,
}

impl Volumes {
    /// Adds a volume.
    pub fn add(&mut self, handle: &Text, name: &Text) {
        match self.one.get(handle) {
            None => {
                self.one.insert(handle.clone(), name.clone());
            }
            Some(known) if known == name => {}
            Some(_) => {
                self.more.insert((handle.clone(), name.clone()));
            }
        }
    }

    /// Removes a volume. Returns whether it was the last one with this handle.
    pub fn remove(&mut self, handle: &Text, name: &Text) -> bool {
        self.more.remove(&(handle.clone(), name.clone()));
        if self.one.get(handle) != Some(name) {
            return false;
        }
        let other = self.others(handle).next().cloned();
        match other {
            Some(other) => {
                self.one.insert(handle.clone(), other.clone());
                self.more.remove(&(handle.clone(), other));
                false
            }
            None => self.one.remove(handle).is_some(),
        }
    }

    /// The volumes with this handle.
    pub fn of(&self, handle: &Text) -> Vec<Text> {
        let one = self.one.get(handle).into_iter();
        one.chain(self.others(handle)).cloned().collect()
    }

    fn others(&self, handle: &Text) -> impl Iterator<Item = &Text> {
        let from = (handle.clone(), Text::from(""));
        let others = self.more.range(from..);
        let others = others.take_while(move |(of, _)| of == handle);
        others.map(|(_, name)| name)
    }

    /// All volumes.
    pub fn names(&self) -> impl Iterator<Item = &Text> {
        let more = self.more.iter().map(|(_, name)| name);
        self.one.values().chain(more)
    }

    /// The part about one handle.
    #[must_use]
    pub fn about(&self, handle: &Text) -> Self {
        let mut about = Self::default();
        for name in self.of(handle) {
            about.add(handle, &name);
        }
        about
    }

    /// The stored copy of this handle, if any volume has it.
    pub fn handle(&self, handle: &str) -> Option<&Text> {
        self.one.get_key_value(handle).map(|(handle, _)| handle)
    }

    /// All handles, in order.
    pub fn handles(&self) -> Vec<Text> {
        let mut all: Vec<Text> = self.one.keys().cloned().collect();
        all.sort_unstable();
        all
    }

    /// Number of handles.
    pub fn len(&self) -> usize {
        self.one.len()
    }

    /// Whether there are no volumes.
    pub fn is_empty(&self) -> bool {
        self.one.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h_46_volumes_with_one_handle_are_all_known_by_it() {
        let [h, a, b, c]: [Text; 4] = ["h", "a", "b", "c"].map(Text::from);
        let mut volumes = Volumes::default();
        for name in [&a, &b, &c, &a] {
            volumes.add(&h, name);
        }
        volumes.add(&"i".into(), &"d".into());
        assert_eq!(volumes.of(&h), [a.clone(), b.clone(), c.clone()]);
        assert!(!volumes.remove(&h, &a));
        assert_eq!(volumes.of(&h), [b.clone(), c.clone()]);
        assert!(!volumes.remove(&h, &c));
        assert!(!volumes.remove(&h, &c));
        assert!(volumes.remove(&h, &b));
        assert!(!volumes.remove(&h, &b));
        assert_eq!(volumes.handles(), [Text::from("i")]);
        assert!(volumes.more.is_empty());
    }
}
