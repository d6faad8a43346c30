//! Reads objects of the API server into the records of [`model`](crate::model).
//!
//! Whatever an API server may send can be decoded: absent and `null` are alike everywhere.

mod attachment;
mod capacity;
mod claim;
mod class;
mod grant;
mod node;
mod snapshot;
mod volume;

pub use capacity::{StorageCapacityWire, read_owned};
pub use claim::{ClaimWire, read_claim};
pub use class::ClassWire;
pub use grant::GrantWire;
pub use snapshot::{ContentWire, SnapshotWire};
pub use volume::read_volume;

#[cfg(test)]
mod tests;
