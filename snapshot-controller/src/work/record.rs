//! Reads objects of the API server into the records of [`model`](crate::model).
//!
//! How an object reads on the wire is the API's affair. Nothing an API server may send fails to
//! decode: absent and `null` are alike everywhere.

mod claim;
mod class;
mod content;
mod group;
mod node;
mod snapshot;
mod volume;

use serde::Deserialize;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean;

use crate::model::{Failure, Text};

/// `error` in a status.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FailureWire<'a> {
    #[serde(borrow)]
    message: Option<lean::Text<'a>>,
    #[serde(borrow)]
    time: Option<lean::Text<'a>>,
}

impl FailureWire<'_> {
    fn read(self) -> Failure {
        Failure {
            message: self.message.as_deref().map(Text::from),
            time: self.time.as_deref().map(Text::from),
        }
    }
}

/// The shared copy; empty where the field is absent.
fn interned(text: &Option<lean::Text<'_>>, strings: &Interner) -> Text {
    strings.intern(text.as_deref().unwrap_or_default())
}

/// A copy of a text that is there and not empty.
fn some(text: &Option<lean::Text<'_>>) -> Option<Text> {
    let text = text.as_deref().filter(|text| !text.is_empty());
    text.map(Text::from)
}

#[cfg(test)]
mod tests;
