//! VolumeAttributesClass: what a volume's attributes shall be.
//!
//! It is looked up only; one that appears wakes the claims that wait for it.

use super::{Pairs, Text};

/// What the resizer reads of a `storage.k8s.io/v1` VolumeAttributesClass. Its name is the key under
/// which it is cached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributesClass {
    /// `metadata.uid`; a class made anew under the same name may say something else.
    pub uid: Text,
    /// `driverName`.
    pub driver: Text,
    /// `parameters`, which cannot be changed.
    pub parameters: Pairs,
}
