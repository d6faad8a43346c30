//! Which objects are out of date after a volume was made or deleted.
//!
//! The rules are about volumes; `DesiredObjects` only knows classes and segments.

use std::collections::BTreeSet;

use csi_proto::csi::Topology;
use sidecar::node_selector::{self, Requirement};

use super::desired_objects::{DesiredObjects, Task};
use crate::plan::topology::Term;

impl DesiredObjects {
    /// A volume was made for a claim of this class: capacity has decreased in its segments, or, where the driver
    /// reports no topology, in any.
    #[must_use]
    pub fn after_success(&self, class: &str, accessible: &[Topology]) -> Vec<Task> {
        let reported = accessible
            .iter()
            .filter(|topology| !topology.segments.is_empty());
        let segments: BTreeSet<Term> = reported.map(Term::from_csi).collect();
        if segments.is_empty() {
            self.of_class(class)
        } else {
            self.of_segments(&segments)
        }
    }

    /// No volume could be made for a claim of this class, maybe for lack of capacity that an object promised. Not
    /// called for failures before the driver was called.
    #[must_use]
    pub fn after_failure(&self, class: &str) -> Vec<Task> {
        self.of_class(class)
    }

    /// A volume was deleted: capacity has increased in the segments of its affinity.
    #[must_use]
    pub fn after_delete(&self, affinity: Option<&[node_selector::Term]>) -> Vec<Task> {
        let terms = affinity.unwrap_or_default().iter();
        let segments: BTreeSet<Term> = terms.filter_map(segment).collect();
        self.of_segments(&segments)
    }
}

/// The segment that a term of an affinity selects, if it selects exactly one.
fn segment(term: &node_selector::Term) -> Option<Term> {
    if !term.fields.is_empty() {
        return None;
    }
    let label = |expression: &Requirement| match &*expression.values {
        [value] if *expression.operator == *"In" => Some((expression.key.clone(), value.clone())),
        _ => None,
    };
    let labels: Option<Vec<_>> = term.expressions.iter().map(label).collect();
    labels.map(Term::new)
}
