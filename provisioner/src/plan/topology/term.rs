//! A term: the labels of a topology segment.
//!
//! Requirement, capacity segments and node affinity all compare terms, and need the same order.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use csi_proto::csi;

use crate::model::{Pairs, Text};

/// Labels of a topology segment, sorted by key, then by value. Clones share the labels.
///
/// Terms are sorted as the driver gets them: fewer labels first, then by key and value in byte order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term(Arc<[(Text, Text)]>);

impl Term {
    /// The term of these labels, in any order.
    #[must_use]
    pub fn new(labels: impl IntoIterator<Item = (Text, Text)>) -> Self {
        let mut labels: Vec<_> = labels.into_iter().collect();
        labels.sort_unstable();
        Self(labels.into())
    }

    /// The labels of CSI's `Topology.segments`.
    #[must_use]
    pub fn from_csi(topology: &csi::Topology) -> Self {
        let segments = topology.segments.iter();
        Self::new(segments.map(|(key, value)| (key.as_str().into(), value.as_str().into())))
    }

    /// The term of a node with these labels under `keys`.
    ///
    /// # Errors
    /// The first of `keys` that the node has no label for.
    pub fn of_labels<'k>(keys: &'k [Text], labels: &Pairs) -> Result<Self, &'k Text> {
        let value = |key: &'k Text| {
            let value = labels.get_shared(key).ok_or(key)?;
            Ok((key.clone(), value.clone()))
        };
        let labels: Result<Vec<_>, _> = keys.iter().map(value).collect();
        labels.map(Self::new)
    }

    /// Keys and values, sorted.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Text, &Text)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Number of labels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the term has no label, and so matches every node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every label of this term is one of `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        let mut others = other.0.iter();
        // Both are sorted: a label that was skipped is not needed again.
        self.0
            .iter()
            .all(|label| others.by_ref().any(|held| held == label))
    }

    /// The labels as a map, as in CSI and label selectors. Of two values of one key, which only a StorageClass can
    /// have, the greater one wins.
    #[must_use]
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let labels = self.0.iter();
        labels
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect()
    }
}

impl Ord for Term {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Term {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
pub(super) fn term(labels: &str) -> Term {
    let labels = labels.split(' ').filter(|label| !label.is_empty());
    Term::new(labels.map(|label| {
        let (key, value) = label.split_once('=').unwrap();
        (key.into(), value.into())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_180_subsets() {
        for (one, other, subset) in [
            ("", "", true),
            ("", "i=1", true),
            ("i=1 z=1", "i=1", false),
            ("z=1", "i=1 z=1", true),
            ("i=1", "z=1", false),
            ("z=1", "z=2", false),
            ("a=1 c=1", "a=1 b=1 c=1 d=1", true),
            ("a=1 c=2", "a=1 b=1 c=1 d=1", false),
        ] {
            assert_eq!(
                term(one).is_subset(&term(other)),
                subset,
                "{one:?} of {other:?}"
            );
        }
    }

    #[test]
    fn shorter_terms_come_first_then_byte_order() {
        let mut terms = ["b=1", "a=2 b=1", "a=10", "a=1 b=2", "", "a=2", "B=9"].map(term);
        terms.sort();
        let expected = ["", "B=9", "a=10", "a=2", "b=1", "a=1 b=2", "a=2 b=1"].map(term);
        assert_eq!(terms, expected);
    }

    #[test]
    fn labels_of_a_node_under_keys() {
        let labels = ["rack", "A", "zone", "1", "arch", "arm"].map(Text::from);
        let labels = Pairs::new(labels.into());
        let keys = ["zone", "rack"].map(Text::from);
        assert_eq!(Term::of_labels(&keys, &labels), Ok(term("rack=A zone=1")));
        let keys = ["zone", "row"].map(Text::from);
        assert_eq!(Term::of_labels(&keys, &labels), Err(&keys[1]));
    }
}
