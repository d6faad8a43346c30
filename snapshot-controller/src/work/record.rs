//! Reads objects of the API server into the records of [`model`](crate::model).
//!
//! The wire format stays in here. Any object of an API server decodes: an absent field is the same
//! as `null`.

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

/// A copy of the text, unless it is absent or empty.
fn some(text: &Option<lean::Text<'_>>) -> Option<Text> {
    let text = text.as_deref().filter(|text| !text.is_empty());
    text.map(Text::from)
}

#[cfg(test)]
mod tests;
