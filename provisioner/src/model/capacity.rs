//! CSIStorageCapacity: the free capacity of a class in a topology segment, for the scheduler.
//!
//! The provisioner writes these objects; it only reads those of all other records.

use std::sync::Arc;

use super::{List, Pairs, Quantity, Text};

/// A `storage.k8s.io/v1` CSIStorageCapacity, with everything that a full update must carry: the provisioner has no
/// permission to read or to patch single objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageCapacity {
    /// `metadata.name`; the namespace is the process's own.
    pub name: Text,
    /// `metadata.uid`; tells an object from a later one of the same name.
    pub uid: Text,
    /// `metadata.resourceVersion`, 0 if it is no number.
    pub version: u64,
    /// `metadata.generateName`.
    pub generate_name: Option<Text>,
    /// `metadata.labels`.
    pub labels: Pairs,
    /// `metadata.annotations`.
    pub annotations: Pairs,
    /// `metadata.finalizers`, in order.
    pub finalizers: List,
    /// `metadata.ownerReferences`, in order.
    pub owners: Arc<[OwnerReference]>,
    /// `storageClassName`.
    pub class: Text,
    /// `nodeTopology`.
    pub topology: NodeTopology,
    /// `capacity`.
    pub capacity: Option<Quantity>,
    /// `maximumVolumeSize`.
    pub maximum: Option<Quantity>,
}

/// `nodeTopology` of a CSIStorageCapacity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodeTopology {
    /// Not set: no node.
    #[default]
    None,
    /// All nodes with these labels, `matchLabels`.
    Labels(Pairs),
    /// A selector with expressions, which no provisioner writes.
    Other,
}

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OwnerReference {
    /// `apiVersion`
    pub api_version: Text,
    /// `kind`
    pub kind: Text,
    /// `name`
    pub name: Text,
    /// `uid`
    pub uid: Text,
    /// `controller`
    pub controller: Option<bool>,
    /// `blockOwnerDeletion`
    pub block_deletion: Option<bool>,
}
