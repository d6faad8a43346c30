//! The objects of a kind, by namespace and name and by indexes.
//!
//! `why` explains each stuck object by itself. With 50,000 objects of a kind, iterating over all of them for each would
//! take hours: an index is built once and returns the few that match.

use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, HashMap};

/// Namespace and name.
type Key = (Box<str>, Box<str>);

/// An index. Keys of namespaced objects have their namespace in front: [`within`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum By {
    /// Events: kind and name of their object. Snapshots: the source claim. Claims: the data source.
    Of,
    /// The object's name, in any namespace.
    Name,
    /// Pods: the claims that they name.
    Claim,
    /// Claims: their labels.
    Label,
    /// Snapshots: the group they are members of.
    Group,
    /// Attachments: the volume.
    Volume,
    /// Attachments: driver and node.
    DriverOnNode,
    /// Attachments that are not attached yet or not gone yet: the driver.
    Busy,
    /// CSINodes: the drivers on it.
    Driver,
    /// Pods that register a driver with kubelet: their node.
    Plugin,
    /// Pods and workloads: the programs of their containers.
    Program,
    /// Volumes: the class.
    Class,
    /// Volumes without a provisioner: the class.
    HandMade,
    /// Available volumes: the class. For each set of modes, the largest is known.
    Free,
}

/// A name with its namespace in front.
pub(super) fn within(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// A size and the object that has it.
type Largest = (i64, u32);

/// The indexes of a kind.
#[derive(Debug, Default)]
pub struct Index {
    by: HashMap<By, HashMap<Box<str>, Vec<u32>>>,
    /// Largest object by group and by what makes objects alike.
    largest: HashMap<Box<str>, BTreeMap<Box<str>, Largest>>,
    /// The slot of the object whose keys are being added.
    slot: u32,
}

impl Index {
    /// Adds the object to an index under this key.
    pub(super) fn add(&mut self, by: By, key: &str) {
        let keys = self.by.entry(by).or_default();
        let slots = match keys.get_mut(key) {
            Some(slots) => slots,
            None => keys.entry(key.into()).or_default(),
        };
        // An object with the same key twice counts once.
        if slots.last() != Some(&self.slot) {
            slots.push(self.slot);
        }
    }

    /// Adds the object to those of a group that are alike, of which the largest is kept.
    pub(super) fn rank(&mut self, group: &str, alike: &str, size: i64) {
        let own = self.largest.entry(group.into()).or_default();
        let best = own.entry(alike.into()).or_insert((size, self.slot));
        if size > best.0 {
            *best = (size, self.slot);
        }
    }
}

/// Objects of a kind.
#[derive(Debug)]
pub struct Store<T> {
    slots: BTreeMap<Key, u32>,
    objects: Vec<T>,
    index: OnceCell<Index>,
    /// Number of objects that decisions and the building of the index iterated over.
    visited: Cell<usize>,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self {
            slots: BTreeMap::new(),
            objects: Vec::new(),
            index: OnceCell::new(),
            visited: Cell::new(0),
        }
    }
}

impl<T: Clone> Clone for Store<T> {
    fn clone(&self) -> Self {
        Self {
            slots: self.slots.clone(),
            objects: self.objects.clone(),
            ..Self::default()
        }
    }
}

impl<T> Store<T> {
    /// Stores an object, in place of the one with the same name.
    pub(super) fn insert(&mut self, namespace: &str, name: &str, object: T) {
        self.index.take();
        let next = u32::try_from(self.objects.len()).unwrap_or(u32::MAX);
        let entry = self.slots.entry((namespace.into(), name.into()));
        let slot = *entry.or_insert(next);
        match self.objects.get_mut(slot as usize) {
            Some(old) => *old = object,
            None => self.objects.push(object),
        }
    }

    fn at(&self, slot: u32) -> Option<&T> {
        self.visited.set(self.visited.get().saturating_add(1));
        self.objects.get(slot as usize)
    }

    /// One object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&T> {
        let slot = self.slots.get(&(namespace.into(), name.into()))?;
        self.objects.get(*slot as usize)
    }

    /// All of them, or those of a namespace, in the order of their names.
    pub fn list(&self, namespace: Option<&str>) -> impl Iterator<Item = &T> {
        let first: Key = (namespace.unwrap_or_default().into(), "".into());
        let range = self.slots.range(first..);
        let own = range.take_while(move |((own, _), _)| namespace.is_none_or(|one| **own == *one));
        own.filter_map(|(_, slot)| self.at(*slot))
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Number of objects that decisions iterated over.
    pub(super) fn visited(&self) -> usize {
        self.visited.get()
    }

    fn index(&self, keys: fn(&T, &mut Index)) -> &Index {
        self.index.get_or_init(|| {
            let mut index = Index::default();
            for slot in self.slots.values() {
                if let Some(object) = self.at(*slot) {
                    index.slot = *slot;
                    keys(object, &mut index);
                }
            }
            index
        })
    }

    /// The objects with this key, in the order of their names, and their number.
    pub(super) fn by(
        &self,
        keys: fn(&T, &mut Index),
        by: By,
        key: &str,
    ) -> (impl Iterator<Item = &T>, usize) {
        let slots = self.index(keys).by.get(&by).and_then(|keys| keys.get(key));
        let slots = slots.map(Vec::as_slice).unwrap_or_default();
        let all = slots.len();
        (slots.iter().filter_map(|slot| self.at(*slot)), all)
    }

    /// The largest objects of a group, one for each set of alike ones.
    pub(super) fn largest(
        &self,
        keys: fn(&T, &mut Index),
        group: &str,
    ) -> impl Iterator<Item = &T> {
        let alike = self.index(keys).largest.get(group);
        let alike = alike.into_iter().flat_map(BTreeMap::values);
        alike.filter_map(|(_, slot)| self.at(*slot))
    }
}
