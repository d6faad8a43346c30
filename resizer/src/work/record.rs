//! Reads objects of the API server into the records of [`model`](crate::model).
//!
//! How an object reads on the wire is the API's affair. Nothing an API server may send fails to
//! decode: absent and `null` are alike everywhere.

mod claim;
mod class;
mod pod;
mod volume;

use sidecar::kube::interner::Interner;
use sidecar::kube::lean;

use crate::model::{Quantity, Text};

/// A quantity, or `None` for what the API server would not have accepted.
fn quantity(text: Option<&lean::Text<'_>>) -> Option<Quantity> {
    text.and_then(|text| text.parse().ok())
}

/// The shared copy; empty where the field is absent.
fn interned(text: &Option<lean::Text<'_>>, strings: &Interner) -> Text {
    strings.intern(text.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests;
