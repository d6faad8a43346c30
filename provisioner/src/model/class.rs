//! StorageClass and VolumeAttributesClass: how volumes are to be made.

use std::sync::Arc;

use super::{List, Pairs, Text};

/// What the provisioner reads of a `storage.k8s.io/v1` StorageClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// `metadata.name`.
    pub name: Text,
    /// `metadata.uid`; another one is another class of the same name.
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
    /// Not set.
    #[default]
    Unset,
    /// `Immediate`
    Immediate,
    /// `WaitForFirstConsumer`
    WaitForFirstConsumer,
    /// Anything else.
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

/// One term of `allowedTopologies`: keys, each with the values it may have, in order.
pub type SelectorTerm = Arc<[(Text, List)]>;

/// What the provisioner reads of a `storage.k8s.io/v1` VolumeAttributesClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributesClass {
    /// `metadata.name`.
    pub name: Text,
    /// `driverName`.
    pub driver: Text,
    /// `parameters`.
    pub parameters: Pairs,
}
