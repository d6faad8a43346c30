//! StorageClass and VolumeAttributesClass: how the driver makes volumes.

use std::sync::Arc;

use super::{List, Pairs, Text};

/// A `storage.k8s.io/v1` StorageClass, as far as the provisioner reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// `metadata.name`.
    pub name: Text,
    /// `metadata.uid`; a class made anew under the same name has another one.
    pub uid: Text,
    /// `provisioner`.
    pub provisioner: Text,
    /// `parameters`.
    pub parameters: Pairs,
    /// `reclaimPolicy`, as written.
    pub reclaim_policy: Option<Text>,
    /// `mountOptions`, in order.
    pub mount_options: List,
    /// `volumeBindingMode`.
    pub binding_mode: BindingMode,
    /// `allowedTopologies`, in order.
    pub allowed_topologies: Arc<[SelectorTerm]>,
}

/// `volumeBindingMode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BindingMode {
    /// `volumeBindingMode` is not set.
    #[default]
    Unset,
    /// `Immediate`
    Immediate,
    /// `WaitForFirstConsumer`
    WaitForFirstConsumer,
    /// Any other value.
    Other,
}

impl BindingMode {
    /// The mode that the API spells `text`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "" => Self::Unset,
            "Immediate" => Self::Immediate,
            "WaitForFirstConsumer" => Self::WaitForFirstConsumer,
            _ => Self::Other,
        }
    }
}

/// One term of `allowedTopologies`: keys, each with its allowed values, in order.
pub type SelectorTerm = Arc<[(Text, List)]>;

/// A `storage.k8s.io/v1` VolumeAttributesClass, as far as the provisioner reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributesClass {
    /// `metadata.name`.
    pub name: Text,
    /// `driverName`.
    pub driver: Text,
    /// `parameters`.
    pub parameters: Pairs,
}
