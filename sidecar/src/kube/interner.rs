//! One copy of each text that many cached objects have in common.
//!
//! Drivers, classes, namespaces, label keys, finalizers: without sharing, a cached record takes
//! twice the memory. Texts nobody holds any more are swept, because label values may be unique to
//! objects that come and go.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Below this many texts a sweep is not worth it.
const SMALL: usize = 1024;

/// A set of shared texts; clones are the same set. One serves all caches of a process.
#[derive(Debug, Clone, Default)]
pub struct Interner {
    inner: Arc<Mutex<Texts>>,
}

#[derive(Debug, Default)]
struct Texts {
    texts: HashSet<Arc<str>>,
    /// Lists of interned texts.
    lists: HashSet<Arc<[Arc<str>]>>,
    after_last_sweep: usize,
}

impl Interner {
    /// The shared copy of this text.
    pub fn intern(&self, text: &str) -> Arc<str> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = inner.texts.get(text) {
            return Arc::clone(known);
        }
        inner.make_room();
        let new: Arc<str> = Arc::from(text);
        inner.texts.insert(Arc::clone(&new));
        new
    }

    /// The shared copy of this list of texts: finalizers, access modes, attributes.
    pub fn intern_list<'a>(&self, items: impl IntoIterator<Item = &'a str>) -> Arc<[Arc<str>]> {
        let list: Vec<Arc<str>> = items.into_iter().map(|item| self.intern(item)).collect();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = inner.lists.get(list.as_slice()) {
            return Arc::clone(known);
        }
        inner.make_room();
        let new: Arc<[Arc<str>]> = Arc::from(list);
        inner.lists.insert(Arc::clone(&new));
        new
    }

    /// Forgets the texts that nobody holds.
    pub fn sweep(&self) {
        self.inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .sweep();
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .texts
            .len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Texts {
    fn make_room(&mut self) {
        let count = self.texts.len() + self.lists.len();
        if count >= SMALL.max(self.after_last_sweep.saturating_mul(2)) {
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        self.lists.retain(|list| Arc::strong_count(list) > 1);
        self.texts.retain(|text| Arc::strong_count(text) > 1);
        self.after_last_sweep = self.texts.len() + self.lists.len();
        if self.lists.capacity() > 4 * self.lists.len().max(SMALL) {
            self.lists.shrink_to(2 * self.lists.len());
        }
        if self.texts.capacity() > 4 * self.texts.len().max(SMALL) {
            self.texts.shrink_to(2 * self.texts.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one() {
        let interner = Interner::default();
        let one = interner.intern("driver");
        assert!(Arc::ptr_eq(&one, &interner.clone().intern("driver")));
        assert_eq!(interner.len(), 1);
    }

    #[test]
    fn a_sweep_keeps_what_is_held() {
        let interner = Interner::default();
        let kept = interner.intern("kept");
        interner.intern("gone");
        interner.sweep();
        assert_eq!(interner.len(), 1);
        assert!(Arc::ptr_eq(&kept, &interner.intern("kept")));
    }

    #[test]
    fn equal_lists_are_one_and_go_with_their_last_holder() {
        let interner = Interner::default();
        let one = interner.intern_list(["a", "b"]);
        assert!(Arc::ptr_eq(&one, &interner.intern_list(["a", "b"])));
        assert!(!Arc::ptr_eq(&one, &interner.intern_list(["b", "a"])));
        assert!(interner.intern_list([]).is_empty());
        drop(one);
        interner.sweep();
        assert_eq!(interner.len(), 0);
    }

    #[test]
    fn texts_that_come_and_go_do_not_pile_up() {
        let interner = Interner::default();
        let held: Vec<_> = (0..100)
            .map(|n| interner.intern(&format!("held-{n}")))
            .collect();
        for n in 0..100_000 {
            interner.intern(&format!("value-{n}"));
        }
        assert!(interner.len() <= SMALL + held.len(), "{}", interner.len());
    }
}
