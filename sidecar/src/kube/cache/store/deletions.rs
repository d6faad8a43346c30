//! Up to which version objects are known to be gone.

use std::collections::{HashMap, VecDeque};

use crate::kube::key::Key;

/// So many deletions are remembered, the last ones. Events that come later than this many deletions
/// after their time are believed.
const REMEMBERED: usize = 512;

/// A deletion, or an own write after which nothing is kept of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deletion {
    pub(super) version: u64,
    /// The generation in which an own write's answer said so; 0 if the list or the watch did.
    pub(super) own: u32,
}

/// The last deletions by object.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    by_key: HashMap<Key, Deletion>,
    /// In the order in which they came; those that were replaced or forgotten since are still here.
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

    /// Of a version that is no number nothing can be said to be older.
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

    /// The object exists again.
    pub(super) fn forget(&mut self, key: &Key) {
        self.by_key.remove(key.as_str());
    }

    /// A list is complete: it knows better than what was known before it began.
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
