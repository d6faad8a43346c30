//! `allowedTopologies` of a StorageClass, expanded to all combinations.
//!
//! The class lists values per key, while CSI wants a whole topology for each combination.

use super::error::Error;
use super::term::Term;
use crate::model::{SelectorTerm, Text};

/// Greatest number of terms of one class. A request with this many does not fit into a gRPC message, and without a
/// limit ten expressions of fifty values would exceed any memory.
pub(super) const MOST_TERMS: usize = 65_536;

/// Every topology that the class allows. Terms are neither sorted nor unique.
///
/// A term without expressions allows nothing; within one term, an expression without values cancels those before it.
/// The API server accepts neither.
///
/// # Errors
/// The class has more than [`MOST_TERMS`] terms.
pub(super) fn flatten(allowed: &[SelectorTerm]) -> Result<Vec<Term>, Error> {
    let mut terms = Vec::new();
    for topology in allowed {
        for product in product(topology)? {
            if terms.len() == MOST_TERMS {
                return Err(Error::TooMany);
            }
            terms.push(Term::new(product));
        }
    }
    Ok(terms)
}

fn product(topology: &SelectorTerm) -> Result<Vec<Vec<(Text, Text)>>, Error> {
    let mut partial: Vec<Vec<(Text, Text)>> = Vec::new();
    for (key, values) in topology.iter() {
        let before = if partial.is_empty() {
            vec![Vec::new()]
        } else {
            partial
        };
        let size = before.len().saturating_mul(values.len());
        if size > MOST_TERMS {
            return Err(Error::TooMany);
        }
        partial = Vec::with_capacity(size);
        for value in values.iter() {
            for labels in &before {
                let mut labels = labels.clone();
                labels.push((key.clone(), value.clone()));
                partial.push(labels);
            }
        }
    }
    Ok(partial)
}
