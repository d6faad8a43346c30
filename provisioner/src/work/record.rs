//! Reads objects of the API server into the records of [`model`](crate::model).
//!
//! How an object reads on the wire is the API's affair. Nothing an API server may send fails to
//! decode: absent and `null` are alike everywhere.

mod attachment;
mod capacity;
mod claim;
mod class;
mod grant;
mod node;
mod snapshot;
mod volume;

use serde::Deserialize;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean;

use crate::model::{Quantity, Text};

pub use attachment::AttachmentWire;
pub use capacity::{StorageCapacityWire, read_owned};
pub use claim::{ClaimWire, read_claim};
pub use class::{AttributesClassWire, ClassWire};
pub use grant::GrantWire;
pub use node::{CsiNodeWire, NodeWire};
pub use snapshot::{ContentWire, SnapshotWire};
pub use volume::{VolumeWire, read_volume};

/// A reference by namespace, name and uid, as objects of several kinds carry it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ReferenceWire<'a> {
    #[serde(borrow)]
    namespace: Option<lean::Text<'a>>,
    #[serde(borrow)]
    name: Option<lean::Text<'a>>,
    #[serde(borrow)]
    uid: Option<lean::Text<'a>>,
}

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
