//! The topology requirement of a claim: where its volume may be, and where it should preferably be.
//!
//! The algorithm; its input are the class's allowed topologies, the selected node and the cluster's [`TopologyIndex`].

use std::sync::Arc;

use csi_proto::csi;

use super::allowed::flatten;
use super::error::Error;
use super::index::{Entry, TopologyIndex};
use super::spread;
use super::term::Term;
use crate::model::{List, SelectorTerm, Text};

/// Input of a requirement.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// `metadata.name` of the claim.
    pub claim: &'a str,
    /// The selected node; an empty name is none.
    pub node: Option<&'a Text>,
    /// `allowedTopologies` of the StorageClass.
    pub allowed: &'a [SelectorTerm],
    /// `--strict-topology`: the selected node's topology only.
    pub strict: bool,
    /// `--immediate-topology`: without selected node and allowed topologies, use all of the cluster's.
    pub immediate: bool,
    /// The topology of the cluster.
    pub topology: &'a TopologyIndex,
}

/// The topologies where a volume may be, preferred ones first from a start index on.
///
/// CSI has two lists, and both always have the same terms: `requisite` sorted, `preferred` rotated so that another one
/// is first. One list and a start index guarantee that, and the requirement of a cluster with thousands of topologies
/// costs nothing until the request is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    terms: Arc<[Term]>,
    first: usize,
}

impl Requirement {
    /// `None` without any term, or if `first` is out of range.
    #[must_use]
    pub(super) fn new(terms: Arc<[Term]>, first: usize) -> Option<Self> {
        (first < terms.len()).then_some(Self { terms, first })
    }

    /// The requisite topologies, sorted.
    #[must_use]
    pub fn requisite(&self) -> &[Term] {
        &self.terms
    }

    /// The same topologies, most preferred first.
    pub fn preferred(&self) -> impl Iterator<Item = &Term> {
        let (before, from) = self.terms.split_at_checked(self.first).unwrap_or_default();
        from.iter().chain(before)
    }

    /// Index of the most preferred topology within [`requisite`](Self::requisite).
    pub(super) fn first(&self) -> usize {
        self.first
    }

    /// The field `accessibility_requirements` of a CreateVolume request.
    #[must_use]
    pub fn to_csi(&self) -> csi::TopologyRequirement {
        let topology = |term: &Term| csi::Topology {
            segments: term.to_map(),
        };
        csi::TopologyRequirement {
            requisite: self.requisite().iter().map(topology).collect(),
            preferred: self.preferred().map(topology).collect(),
        }
    }
}

/// Computes the requirement of a claim: `None` if the volume may be anywhere.
///
/// A retry of a call with unknown outcome must send the same requirement although nodes have come and gone: it does not
/// call this again.
///
/// # Errors
/// Why no requirement can be made; [`Error::reschedules`] has the consequence for the claim.
pub fn requirement(input: &Input<'_>) -> Result<Option<Requirement>, Error> {
    let Some(node) = input.node.filter(|node| !node.is_empty()) else {
        return spread_out(input);
    };
    let selected = selected(node, input.topology)?;
    if input.strict {
        strictly(&selected, input).map(Some)
    } else {
        around(&selected, input)
    }
}

/// A node with its topology.
struct Selected<'a> {
    node: &'a Text,
    keys: &'a List,
    term: Term,
}

impl Selected<'_> {
    fn not_allowed(&self) -> Error {
        let labels = self
            .term
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        Error::NotAllowed {
            node: self.node.clone(),
            topology: labels.collect::<Vec<_>>().join(", "),
        }
    }
}

fn selected<'a>(node: &'a Text, topology: &'a TopologyIndex) -> Result<Selected<'a>, Error> {
    let keys = match topology.driver(node) {
        Entry::NoCsiNode => return Err(Error::NodeGone(node.clone())),
        Entry::Keys(keys) if !keys.is_empty() => keys,
        Entry::NotInstalled | Entry::Keys(_) => return Err(Error::NoKeys(node.clone())),
    };
    let labels = topology.labels(node);
    let labels = labels.ok_or_else(|| Error::NoNode(node.clone()))?;
    let term = Term::of_labels(keys, labels).map_err(|key| Error::NoLabel {
        node: node.clone(),
        key: key.clone(),
    })?;
    Ok(Selected { node, keys, term })
}

/// The selected node's topology only, with all its labels even if the class names fewer.
fn strictly(selected: &Selected<'_>, input: &Input<'_>) -> Result<Requirement, Error> {
    if !input.allowed.is_empty() {
        let allowed = flatten(input.allowed)?;
        if !allowed.iter().any(|term| term.is_subset(&selected.term)) {
            return Err(selected.not_allowed());
        }
    }
    Requirement::new(Arc::from([selected.term.clone()]), 0).ok_or_else(|| selected.not_allowed())
}

/// All allowed topologies, the selected node's first.
fn around(selected: &Selected<'_>, input: &Input<'_>) -> Result<Option<Requirement>, Error> {
    let terms = if input.allowed.is_empty() {
        some(input.topology.terms(selected.keys), [selected.keys])?
    } else {
        in_order(flatten(input.allowed)?)
    };
    if terms.is_empty() {
        return Ok(None);
    }
    let first = first_within(&terms, &selected.term);
    let requirement = first.and_then(|first| Requirement::new(terms, first));
    requirement.map(Some).ok_or_else(|| selected.not_allowed())
}

/// Index of the first of these sorted terms that is a subset of `target`. Shorter terms come first; of those of the same
/// length only `target` itself is a subset.
fn first_within(terms: &[Term], target: &Term) -> Option<usize> {
    let shorter = terms.partition_point(|term| term.len() < target.len());
    let (shorter, others) = terms.split_at_checked(shorter)?;
    let found = shorter.iter().position(|term| term.is_subset(target));
    found.or_else(|| Some(shorter.len() + others.binary_search(target).ok()?))
}

/// All allowed topologies, from the one that the claim's name determines.
fn spread_out(input: &Input<'_>) -> Result<Option<Requirement>, Error> {
    let terms = if !input.allowed.is_empty() {
        in_order(flatten(input.allowed)?)
    } else if input.immediate {
        some(input.topology.everywhere(), input.topology.key_sets())?
    } else {
        return Ok(None);
    };
    let start = usize::try_from(spread::start(input.claim)).unwrap_or_default();
    let first = start.checked_rem(terms.len()).unwrap_or_default();
    Ok(Requirement::new(terms, first))
}

/// The terms, unless there are none; `sets` are their keys, for the error.
fn some<'a>(
    terms: Arc<[Term]>,
    sets: impl IntoIterator<Item = &'a List>,
) -> Result<Arc<[Term]>, Error> {
    if !terms.is_empty() {
        return Ok(terms);
    }
    let sets: Vec<_> = sets.into_iter().map(|keys| keys.join(", ")).collect();
    Err(if sets.is_empty() {
        Error::NoKeysAnywhere
    } else {
        Error::NoNodeWithKeys(sets.join("; "))
    })
}

fn in_order(mut terms: Vec<Term>) -> Arc<[Term]> {
    terms.sort_unstable();
    terms.dedup();
    terms.into()
}

#[cfg(test)]
mod tests;
