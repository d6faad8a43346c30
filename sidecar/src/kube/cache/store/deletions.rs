//! The versions at which objects were deleted.

use std::collections::{HashMap, VecDeque};

use crate::kube::key::Key;

/// Number of remembered deletions, the last ones. An event that arrives more than this many
/// deletions late is believed.
const REMEMBERED: usize = 512;

/// A deletion, or an own write after which the object is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deletion {
    pub(super) version: u64,
    /// The generation in which an own write's response reported it; 0 if the list or the watch did.
    pub(super) own: u32,
}

/// The last deletions by object.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    by_key: HashMap<Key, Deletion>,
    /// Deletions in order of arrival; includes those that were replaced or forgotten since.
    order: VecDeque<(Key, u64)>,
}

impl Deletions {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_key.len().max(self.order.len())
    }

    pub(super) fn of(&self, key: &Key) -> Option<Deletion> {
        self.by_key.get(key.as_str()).copied()
    }

    /// Remembers a deletion, unless its version is not a number: no version is older than that.
    pub(super) fn add(&mut self, key: &Key, version: u64, own: u32) {
        if version == 0 || self.of(key).is_some_and(|known| known.version >= version) {
            return;
        }
        self.by_key.insert(key.clone(), Deletion { version, own });
        self.order.push_back((key.clone(), version));
        while self.order.len() > REMEMBERED {
            let Some((oldest, version)) = self.order.pop_front() else {
                break;
            };
            if self
                .of(&oldest)
                .is_some_and(|known| known.version == version)
            {
                self.by_key.remove(oldest.as_str());
            }
        }
    }

    /// Forgets the deletion of an object that exists again.
    pub(super) fn forget(&mut self, key: &Key) {
        self.by_key.remove(key.as_str());
    }

    /// Forgets, after a complete list, all that was known before the list began.
    pub(super) fn keep_only(&mut self, generation: u32) {
        self.by_key.retain(|_, known| known.own == generation);
        self.order.retain(|(key, version)| {
            let known = self.by_key.get(key.as_str());
            known.is_some_and(|known| known.version == *version)
        });
        self.order.shrink_to_fit();
        self.by_key.shrink_to_fit();
    }
}
