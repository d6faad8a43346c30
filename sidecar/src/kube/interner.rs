//! One copy of each text that many cached objects share.
//!
//! Drivers, classes, namespaces, label keys, finalizers: without sharing, a cached record takes
//! twice the memory. Texts without holders are swept, because label values may be unique to objects
//! that come and go.

use std::any::{Any, TypeId};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Below this number of texts a sweep is not worth it.
const SMALL: usize = 1024;

/// A set of shared texts; clones share the set. One serves all caches of a process.
#[derive(Debug, Clone, Default)]
pub struct Interner {
    inner: Arc<Mutex<Texts>>,
}

#[derive(Debug, Default)]
struct Texts {
    texts: HashSet<Arc<str>>,
    /// Lists of interned texts.
    lists: HashSet<Arc<[Arc<str>]>>,
    /// Values of other types, one set per type.
    values: HashMap<TypeId, Box<dyn Values>>,
    after_last_sweep: usize,
}

/// The shared values of one type.
trait Values: fmt::Debug + Send {
    fn as_any(&mut self) -> &mut dyn Any;
    fn sweep(&mut self);
    fn len(&self) -> usize;
}

/// Its `Debug` omits the content, which may be of any type.
struct Shared<T>(HashSet<Arc<T>>);

impl<T> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&self.0.len()).finish()
    }
}

impl<T: Hash + Eq + Send + Sync + 'static> Values for Shared<T> {
    fn as_any(&mut self) -> &mut dyn Any {
        &mut self.0
    }

    fn sweep(&mut self) {
        self.0.retain(|value| Arc::strong_count(value) > 1);
        if self.0.capacity() > 4 * self.0.len().max(SMALL) {
            self.0.shrink_to(2 * self.0.len());
        }
    }

    fn len(&self) -> usize {
        self.0.len()
    }
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

    /// The shared copy of this value, for contents that many records share beside single texts.
    pub fn share<T: Hash + Eq + Send + Sync + 'static>(&self, value: T) -> Arc<T> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = inner.values_of::<T>().and_then(|values| values.get(&value)) {
            return Arc::clone(known);
        }
        inner.make_room();
        let new = Arc::new(value);
        if let Some(values) = inner.values_of() {
            values.insert(Arc::clone(&new));
        }
        new
    }

    /// Forgets the texts without holders.
    pub fn sweep(&self) {
        self.inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .sweep();
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .texts
            .len()
    }

    /// Whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Texts {
    /// The set of values of this type. Always `Some`, which the type system cannot know.
    fn values_of<T: Hash + Eq + Send + Sync + 'static>(&mut self) -> Option<&mut HashSet<Arc<T>>> {
        let fresh = || Box::new(Shared::<T>(HashSet::new())) as Box<dyn Values>;
        let values = self.values.entry(TypeId::of::<T>()).or_insert_with(fresh);
        values.as_any().downcast_mut()
    }

    fn count(&self) -> usize {
        let values: usize = self.values.values().map(|values| values.len()).sum();
        self.texts.len() + self.lists.len() + values
    }

    fn make_room(&mut self) {
        let count = self.count();
        if count >= SMALL.max(self.after_last_sweep.saturating_mul(2)) {
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        // In this order: values hold lists, and lists hold texts.
        self.values.values_mut().for_each(|values| values.sweep());
        self.lists.retain(|list| Arc::strong_count(list) > 1);
        self.texts.retain(|text| Arc::strong_count(text) > 1);
        self.after_last_sweep = self.count();
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
    fn equal_values_are_one_and_go_with_their_last_holder() {
        let interner = Interner::default();
        let value = |text: &str| interner.share((interner.intern(text), true));
        let one = value("a");
        assert!(Arc::ptr_eq(&one, &value("a")));
        assert!(!Arc::ptr_eq(&one, &value("b")));
        assert_eq!(*interner.share(7_u8), 7);
        drop(one);
        interner.sweep();
        assert_eq!(interner.inner.lock().unwrap().count(), 0);
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
