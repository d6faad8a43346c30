//! A StorageClass, as far as a translation reads and changes it.

use std::collections::BTreeMap;

/// A StorageClass with its translated fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// `provisioner`
    pub provisioner: String,
    /// `parameters`
    pub parameters: BTreeMap<String, String>,
    /// `allowedTopologies`: the `matchLabelExpressions` of each term, in order.
    pub allowed_topologies: Vec<Vec<Requirement>>,
}

/// One entry of `matchLabelExpressions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirement {
    /// `key`
    pub key: String,
    /// `values`, in order
    pub values: Vec<String>,
}
