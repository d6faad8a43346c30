//! VolumeAttributesClass: the desired attributes of a volume.
//!
//! Attempts only look it up; a class that appears requeues the claims that wait for it.

use super::{Pairs, Text};

/// A `storage.k8s.io/v1` VolumeAttributesClass, as far as the resizer reads it; cached under its
/// name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributesClass {
    /// `metadata.uid`; a class that was recreated under the same name may differ.
    pub uid: Text,
    /// `driverName`.
    pub driver: Text,
    /// `parameters`, which are immutable.
    pub parameters: Pairs,
}
