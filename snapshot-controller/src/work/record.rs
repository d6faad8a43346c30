//! Reads objects of the API server into the records of [`model`](crate::model).
//!
//! How an object reads on the wire is the API's affair. Nothing an API server may send fails to
//! decode: absent and `null` are alike everywhere.

mod claim;
mod class;
mod content;
mod group;
mod node;
pub mod packed;
mod snapshot;
mod volume;

use sidecar::kube::lean;
use sidecar::snapshot::content::Failure as FailureWire;

use crate::model::{Failure, Text};

fn failure(wire: FailureWire<'_>) -> Failure {
    Failure {
        message: wire.message.as_deref().map(Text::from),
        time: wire.time.as_deref().map(Text::from),
    }
}

/// A copy of a text that is there and not empty.
fn some(text: &Option<lean::Text<'_>>) -> Option<Text> {
    let text = text.as_deref().filter(|text| !text.is_empty());
    text.map(Text::from)
}

#[cfg(test)]
mod tests;
