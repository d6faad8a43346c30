//! The places of a cluster: what nodes are labelled with, and by which keys the driver tells them
//! apart.
//!
//! It is kept in step with the caches instead of being worked out per claim: with 5,000 nodes,
//! collecting their labels for each of a thousand claims costs seconds. Sets are counted when first
//! asked for and adjusted by each change of a node from then on.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use super::term::Term;
use crate::model::{List, Pairs, Text};

/// What is known of the nodes: labels of Nodes, and topology keys of one driver in CSINodes.
///
/// It is fed with every change; the order of changes of different nodes does not matter.
#[derive(Debug, Default)]
pub struct TopologyIndex {
    nodes: HashMap<Text, Place>,
    /// For each set of keys that some CSINode names, never an empty one.
    keys: BTreeMap<List, Reported>,
    /// The terms of all of them; dropped when one of them changes.
    everywhere: OnceLock<Arc<[Term]>>,
    segments: Counted,
}

#[derive(Clone, Debug, Default)]
struct Place {
    /// Of the Node, if there is one.
    labels: Option<Pairs>,
    /// Of the driver's entry in the CSINode, if there is one: in order, without repetition.
    driver: Entry,
}

/// What the CSINode of a node says about the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Entry {
    /// There is no CSINode.
    #[default]
    NoCsiNode,
    /// There is one, and the driver is not in it.
    NotInstalled,
    /// The keys with which the driver was registered, maybe none.
    Keys(List),
}

impl Entry {
    fn keys(&self) -> Option<&List> {
        match self {
            Self::Keys(keys) => Some(keys),
            Self::NoCsiNode | Self::NotInstalled => None,
        }
    }
}

/// A set of keys that CSINodes name.
#[derive(Debug, Default)]
struct Reported {
    /// By how many CSINodes.
    by: usize,
    /// What the nodes have under these keys.
    terms: Counted,
    /// The same as a list; dropped when the set changes.
    list: OnceLock<Arc<[Term]>>,
}

/// Distinct terms and how many nodes each has, once somebody asked.
#[derive(Debug, Default)]
struct Counted(OnceLock<BTreeMap<Term, usize>>);

impl Counted {
    /// Replaces one node's term. Whether the set of terms is another one now.
    fn replace(&mut self, term: impl Fn(&Place) -> Option<Term>, old: &Place, new: &Place) -> bool {
        let Some(counts) = self.0.get_mut() else {
            return false;
        };
        let (old, new) = (term(old), term(new));
        if old == new {
            return false;
        }
        let mut changed = false;
        if let Some(old) = old
            && let Some(count) = counts.get_mut(&old)
        {
            *count -= 1;
            if *count == 0 {
                counts.remove(&old);
                changed = true;
            }
        }
        if let Some(new) = new {
            let count = counts.entry(new).or_default();
            *count += 1;
            changed |= *count == 1;
        }
        changed
    }

    fn get(&self, all: impl Iterator<Item = Term>) -> &BTreeMap<Term, usize> {
        self.0.get_or_init(|| {
            let mut counts = BTreeMap::new();
            for term in all {
                *counts.entry(term).or_default() += 1;
            }
            counts
        })
    }
}

impl Place {
    /// What the node has under `keys`; `None` unless the driver was registered there with all of
    /// them and the Node has all labels.
    fn term(&self, keys: &[Text]) -> Option<Term> {
        let registered = self.driver.keys()?;
        let has = |key| registered.binary_search(key).is_ok();
        let labels = self.labels.as_ref().filter(|_| keys.iter().all(has))?;
        Term::of_labels(keys, labels).ok()
    }

    /// What the node has under its own driver's keys.
    fn segment(&self) -> Option<Term> {
        self.term(self.driver.keys()?)
    }
}

impl TopologyIndex {
    /// The places of a process that serves its own node only: nothing else exists for it.
    #[must_use]
    pub fn of_node(name: &Text, segment: &Term) -> Self {
        let mut places = Self::default();
        let labels = segment.iter().flat_map(|(key, value)| [key, value]);
        places.set_labels(name, Some(Pairs::new(labels.cloned().collect())));
        let keys = segment.iter().map(|(key, _)| key.clone());
        places.set_driver(name, Entry::Keys(keys.collect()));
        places
    }

    /// Takes in the labels of a Node, `None` once it is gone. Whether [`segments`](Self::segments)
    /// are others now, which nobody needs to know who has not asked for them before.
    pub fn set_labels(&mut self, node: &Text, labels: Option<Pairs>) -> bool {
        let old = self.nodes.get(node).cloned().unwrap_or_default();
        // Kubelet reports a node's condition all the time; its labels hardly ever change.
        if old.labels == labels {
            return false;
        }
        let new = Place {
            labels,
            driver: old.driver.clone(),
        };
        self.replace(node, &old, new)
    }

    /// Takes in what the CSINode of a node says about the driver. The answer is as for
    /// [`set_labels`](Self::set_labels).
    pub fn set_driver(&mut self, node: &Text, driver: Entry) -> bool {
        let driver = match driver {
            Entry::Keys(keys) => Entry::Keys(in_order(keys)),
            other @ (Entry::NoCsiNode | Entry::NotInstalled) => other,
        };
        let old = self.nodes.get(node).cloned().unwrap_or_default();
        if old.driver == driver {
            return false;
        }
        if let Some(keys) = old.driver.keys()
            && let Some(reported) = self.keys.get_mut(keys)
        {
            reported.by -= 1;
            if reported.by == 0 {
                self.keys.remove(keys);
                self.everywhere.take();
            }
        }
        if let Entry::Keys(keys) = &driver
            && !keys.is_empty()
        {
            let reported = self.keys.entry(keys.clone()).or_default();
            reported.by += 1;
            if reported.by == 1 {
                self.everywhere.take();
            }
        }
        let labels = old.labels.clone();
        self.replace(node, &old, Place { labels, driver })
    }

    fn replace(&mut self, node: &Text, old: &Place, new: Place) -> bool {
        for (keys, reported) in &mut self.keys {
            if reported.terms.replace(|place| place.term(keys), old, &new) {
                reported.list.take();
                self.everywhere.take();
            }
        }
        let changed = self.segments.replace(Place::segment, old, &new);
        if new.labels.is_none() && new.driver == Entry::NoCsiNode {
            self.nodes.remove(node);
        } else {
            self.nodes.insert(node.clone(), new);
        }
        changed
    }

    /// Labels of this Node, if there is one.
    #[must_use]
    pub fn labels(&self, node: &str) -> Option<&Pairs> {
        self.nodes.get(node)?.labels.as_ref()
    }

    /// What the CSINode of this node says about the driver. Keys are in order.
    #[must_use]
    pub fn driver(&self, node: &str) -> &Entry {
        let place = self.nodes.get(node);
        place.map_or(&Entry::NoCsiNode, |place| &place.driver)
    }

    /// Each distinct set of keys with which the driver was registered somewhere.
    pub fn key_sets(&self) -> impl Iterator<Item = &List> {
        self.keys.keys()
    }

    /// What the nodes have under `keys`, one of the [`key_sets`](Self::key_sets), each once and in
    /// order. A node counts if the driver was registered there with all of them, maybe with more,
    /// and the Node has all labels.
    #[must_use]
    pub fn terms(&self, keys: &List) -> Arc<[Term]> {
        let reported = self.keys.get(keys);
        reported.map_or_else(Arc::default, |reported| self.listed(keys, reported))
    }

    /// What the nodes have under every set of keys, each once and in order.
    #[must_use]
    pub fn everywhere(&self) -> Arc<[Term]> {
        let all = || {
            let sets = self.keys.iter();
            let lists: Vec<_> = sets.map(|(keys, set)| self.listed(keys, set)).collect();
            if let [one] = &*lists {
                return one.clone();
            }
            // Terms of different sets have different keys: none comes twice.
            let mut all = lists.concat();
            all.sort_unstable();
            all.into()
        };
        self.everywhere.get_or_init(all).clone()
    }

    fn listed(&self, keys: &[Text], reported: &Reported) -> Arc<[Term]> {
        let all = || self.nodes.values().filter_map(|place| place.term(keys));
        let list = || reported.terms.get(all()).keys().cloned().collect();
        reported.list.get_or_init(list).clone()
    }

    /// What nodes on which the driver runs have under the keys with which it was registered there,
    /// each once and in order. A node that lacks a key is passed over; a driver without keys gives
    /// one empty term.
    pub fn segments(&self) -> impl Iterator<Item = &Term> {
        let all = self.nodes.values().filter_map(Place::segment);
        self.segments.get(all).keys()
    }
}

fn in_order(keys: List) -> List {
    let mut neighbours = keys.iter().zip(keys.iter().skip(1));
    if neighbours.all(|(one, next)| one < next) {
        return keys;
    }
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.into()
}

#[cfg(test)]
mod tests;
