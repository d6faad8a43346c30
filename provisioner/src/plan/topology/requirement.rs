//! The topology requirement of a claim: where its volume may be, and where it should rather be.
//!
//! The algorithm; the data it needs are the class's allowed topologies, the selected node and the
//! cluster's [`TopologyIndex`].

use std::sync::Arc;

use csi_proto::csi;

use super::allowed::flatten;
use super::error::Error;
use super::index::{Entry, TopologyIndex};
use super::spread;
use super::term::Term;
use crate::model::{List, SelectorTerm, Text};

/// What a requirement follows from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// `metadata.name` of the claim.
    pub claim: &'a str,
    /// The selected node; an empty name is none.
    pub node: Option<&'a Text>,
    /// `allowedTopologies` of the StorageClass.
    pub allowed: &'a [SelectorTerm],
    /// `--strict-topology`: the selected node's place and no other.
    pub strict: bool,
    /// `--immediate-topology`: without anything else to go by, say where the cluster is.
    pub immediate: bool,
    /// The cluster.
    pub places: &'a TopologyIndex,
}

/// Where a volume may be, best first from one place on.
///
/// CSI has two lists, and both are always the same terms: `requisite` in order, `preferred` turned so
/// that another one is first. Keeping one list and where to begin makes it so, and makes the
/// requirement of a cluster with thousands of places cost nothing until the request is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    terms: Arc<[Term]>,
    first: usize,
}

impl Requirement {
    /// `None` without any term, or if `first` is not the index of one.
    #[must_use]
    pub(super) fn new(terms: Arc<[Term]>, first: usize) -> Option<Self> {
        (first < terms.len()).then_some(Self { terms, first })
    }

    /// Where the volume may be, in order.
    #[must_use]
    pub fn requisite(&self) -> &[Term] {
        &self.terms
    }

    /// The same places, those first that are preferred.
    pub fn preferred(&self) -> impl Iterator<Item = &Term> {
        let (before, from) = self.terms.split_at_checked(self.first).unwrap_or_default();
        from.iter().chain(before)
    }

    /// Index of the preferred place within [`requisite`](Self::requisite).
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

/// Decides where a claim's volume may be: `None` if that is nobody's concern.
///
/// A retry of a call in doubt must say the same although nodes have come and gone: it does not ask
/// here again.
///
/// # Errors
/// Why there is no place; [`Error::reschedules`] says what that means for the claim.
pub fn requirement(input: &Input<'_>) -> Result<Option<Requirement>, Error> {
    let Some(node) = input.node.filter(|node| !node.is_empty()) else {
        return spread_out(input);
    };
    let selected = selected(node, input.places)?;
    if input.strict {
        strictly(&selected, input).map(Some)
    } else {
        around(&selected, input)
    }
}

/// A node and its place.
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

fn selected<'a>(node: &'a Text, places: &'a TopologyIndex) -> Result<Selected<'a>, Error> {
    let keys = match places.driver(node) {
        Entry::NoCsiNode => return Err(Error::NodeGone(node.clone())),
        Entry::Keys(keys) if !keys.is_empty() => keys,
        Entry::NotInstalled | Entry::Keys(_) => return Err(Error::NoKeys(node.clone())),
    };
    let labels = places.labels(node);
    let labels = labels.ok_or_else(|| Error::NoNode(node.clone()))?;
    let term = Term::of_labels(keys, labels).map_err(|key| Error::NoLabel {
        node: node.clone(),
        key: key.clone(),
    })?;
    Ok(Selected { node, keys, term })
}

/// The selected node's place alone, with all its labels even if the class names fewer.
fn strictly(selected: &Selected<'_>, input: &Input<'_>) -> Result<Requirement, Error> {
    if !input.allowed.is_empty() {
        let allowed = flatten(input.allowed)?;
        if !allowed.iter().any(|term| term.is_subset(&selected.term)) {
            return Err(selected.not_allowed());
        }
    }
    Requirement::new(Arc::from([selected.term.clone()]), 0).ok_or_else(|| selected.not_allowed())
}

/// Everywhere it is allowed, the selected node's place first.
fn around(selected: &Selected<'_>, input: &Input<'_>) -> Result<Option<Requirement>, Error> {
    let terms = if input.allowed.is_empty() {
        some(input.places.terms(selected.keys), [selected.keys])?
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

/// Index of the first of these terms, which are in order, that is a subset of `place`. Shorter ones
/// come first; of those that are as long as the place only the place itself is a subset.
fn first_within(terms: &[Term], place: &Term) -> Option<usize> {
    let shorter = terms.partition_point(|term| term.len() < place.len());
    let (shorter, others) = terms.split_at_checked(shorter)?;
    let found = shorter.iter().position(|term| term.is_subset(place));
    found.or_else(|| Some(shorter.len() + others.binary_search(place).ok()?))
}

/// Everywhere it is allowed, beginning where the claim's name says.
fn spread_out(input: &Input<'_>) -> Result<Option<Requirement>, Error> {
    let terms = if !input.allowed.is_empty() {
        in_order(flatten(input.allowed)?)
    } else if input.immediate {
        some(input.places.everywhere(), input.places.key_sets())?
    } else {
        return Ok(None);
    };
    let start = usize::try_from(spread::start(input.claim)).unwrap_or_default();
    let first = start.checked_rem(terms.len()).unwrap_or_default();
    Ok(Requirement::new(terms, first))
}

/// These places of the cluster, which are those by these sets of keys; at least one.
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
