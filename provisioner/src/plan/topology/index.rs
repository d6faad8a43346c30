//! The topology of a cluster: the labels of its nodes, and the keys of the driver's topology.
//!
//! Kept up to date with the caches instead of being computed per claim: with 5,000 nodes, collecting their labels for
//! each of a thousand claims costs seconds. Terms are counted at the first query, and adjusted by each change of a node
//! from then on.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use super::term::Term;
use crate::model::{List, Pairs, Text};

/// Labels of Nodes, and topology keys of one driver in CSINodes.
///
/// The caller has to report every change; the order of changes of different nodes does not matter.
#[derive(Clone, Debug, Default)]
pub struct TopologyIndex {
    nodes: HashMap<Text, NodeTopology>,
    /// The nodes' terms for each set of keys that a CSINode has; the set is never empty.
    keys: BTreeMap<List, Reported>,
    /// The terms of all key sets; dropped when one of them changes.
    everywhere: OnceLock<Arc<[Term]>>,
    segments: Counted,
}

#[derive(Clone, Debug, Default)]
struct NodeTopology {
    /// Labels of the Node, if it exists.
    labels: Option<Pairs>,
    /// The driver's entry in the CSINode; its keys are sorted and unique.
    driver: Entry,
}

/// The driver's entry in the CSINode of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Entry {
    /// The node has no CSINode.
    #[default]
    NoCsiNode,
    /// The CSINode exists, and does not contain the driver.
    NotInstalled,
    /// The topology keys of the driver's registration; may be empty.
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

/// A set of keys that CSINodes have.
#[derive(Clone, Debug, Default)]
struct Reported {
    /// Number of CSINodes with the set.
    by: usize,
    /// The nodes' terms under these keys.
    terms: Counted,
    /// The same as a list; dropped when the set changes.
    list: OnceLock<Arc<[Term]>>,
}

/// Distinct terms with the number of their nodes, once they were queried.
#[derive(Clone, Debug, Default)]
struct Counted(OnceLock<BTreeMap<Term, usize>>);

impl Counted {
    /// Replaces one node's term. Returns whether the set of terms has changed.
    fn replace(
        &mut self,
        term: impl Fn(&NodeTopology) -> Option<Term>,
        old: &NodeTopology,
        new: &NodeTopology,
    ) -> bool {
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

impl NodeTopology {
    /// The node's term under `keys`; `None` unless the driver was registered there with all of them and the Node has
    /// all labels.
    fn term(&self, keys: &[Text]) -> Option<Term> {
        let registered = self.driver.keys()?;
        let has = |key| registered.binary_search(key).is_ok();
        let labels = self.labels.as_ref().filter(|_| keys.iter().all(has))?;
        Term::of_labels(keys, labels).ok()
    }

    /// The node's term under its own driver's keys.
    fn segment(&self) -> Option<Term> {
        self.term(self.driver.keys()?)
    }
}

impl TopologyIndex {
    /// The topology for a process that serves its own node only: it contains no other node.
    #[must_use]
    pub fn of_node(name: &Text, segment: &Term) -> Self {
        let mut topology = Self::default();
        let labels = segment.iter().flat_map(|(key, value)| [key, value]);
        topology.set_labels(name, Some(Pairs::new(labels.cloned().collect())));
        let keys = segment.iter().map(|(key, _)| key.clone());
        topology.set_driver(name, Entry::Keys(keys.collect()));
        topology
    }

    /// Records the labels of a Node, `None` once it is gone. Returns whether [`segments`](Self::segments) has changed;
    /// always false before its first query.
    pub fn set_labels(&mut self, node: &Text, labels: Option<Pairs>) -> bool {
        let old = self.nodes.get(node).cloned().unwrap_or_default();
        // Kubelet reports a node's condition all the time; its labels hardly ever change.
        if old.labels == labels {
            return false;
        }
        let new = NodeTopology {
            labels,
            driver: old.driver.clone(),
        };
        self.replace(node, &old, new)
    }

    /// Records the driver's entry in the CSINode of a node. Returns the same as [`set_labels`](Self::set_labels).
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
        self.replace(node, &old, NodeTopology { labels, driver })
    }

    fn replace(&mut self, node: &Text, old: &NodeTopology, new: NodeTopology) -> bool {
        for (keys, reported) in &mut self.keys {
            if reported.terms.replace(|node| node.term(keys), old, &new) {
                reported.list.take();
                self.everywhere.take();
            }
        }
        let changed = self.segments.replace(NodeTopology::segment, old, &new);
        if new.labels.is_none() && new.driver == Entry::NoCsiNode {
            self.nodes.remove(node);
        } else {
            self.nodes.insert(node.clone(), new);
        }
        changed
    }

    /// Labels of this Node, if it exists.
    #[must_use]
    pub fn labels(&self, node: &str) -> Option<&Pairs> {
        self.nodes.get(node)?.labels.as_ref()
    }

    /// The driver's entry in the CSINode of this node. Keys are sorted.
    #[must_use]
    pub fn driver(&self, node: &str) -> &Entry {
        let node = self.nodes.get(node);
        node.map_or(&Entry::NoCsiNode, |node| &node.driver)
    }

    /// Each distinct set of keys of the driver's registrations.
    pub fn key_sets(&self) -> impl Iterator<Item = &List> {
        self.keys.keys()
    }

    /// The terms under `keys`, one of the [`key_sets`](Self::key_sets): unique and sorted. A node counts if the driver
    /// was registered there with all of them, maybe with more, and the Node has all labels.
    #[must_use]
    pub fn terms(&self, keys: &List) -> Arc<[Term]> {
        let reported = self.keys.get(keys);
        reported.map_or_else(Arc::default, |reported| self.listed(keys, reported))
    }

    /// The terms under every set of keys, unique and sorted.
    #[must_use]
    pub fn everywhere(&self) -> Arc<[Term]> {
        let all = || {
            let sets = self.keys.iter();
            let lists: Vec<_> = sets.map(|(keys, set)| self.listed(keys, set)).collect();
            if let [one] = &*lists {
                return one.clone();
            }
            // Terms of different sets have different keys: no term comes twice.
            let mut all = lists.concat();
            all.sort_unstable();
            all.into()
        };
        self.everywhere.get_or_init(all).clone()
    }

    fn listed(&self, keys: &[Text], reported: &Reported) -> Arc<[Term]> {
        let all = || self.nodes.values().filter_map(|node| node.term(keys));
        let list = || reported.terms.get(all()).keys().cloned().collect();
        reported.list.get_or_init(list).clone()
    }

    /// The terms of nodes with the driver under the keys of its registration there, unique and sorted. A node that
    /// lacks a key is left out; a driver without keys has one empty term.
    pub fn segments(&self) -> impl Iterator<Item = &Term> {
        let all = self.nodes.values().filter_map(NodeTopology::segment);
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
