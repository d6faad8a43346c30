//! `allowedTopologies` of a StorageClass, multiplied out.
//!
//! The class says "zone one of, and rack one of" where CSI wants whole places.

use super::error::Error;
use super::term::Term;
use crate::model::{SelectorTerm, Text};

/// The most terms that one class may come to. A request with as many does not fit into a gRPC
/// message, and without a bound ten expressions of fifty values are more than there is memory.
pub(super) const MOST_TERMS: usize = 65_536;

/// Every place that the class allows. Terms are neither in order nor unique.
///
/// A term without expressions allows nothing; within one term, an expression without values undoes
/// those before it. The API server lets neither through.
///
/// # Errors
/// The class comes to more than [`MOST_TERMS`].
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
