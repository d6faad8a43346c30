//! ReferenceGrant: allows other namespaces to use objects of its own.
//!
//! Read only with the gate `CrossNamespaceVolumeDataSource`.

use std::sync::Arc;

use super::Text;

/// A `gateway.networking.k8s.io/v1beta1` ReferenceGrant, as far as the provisioner reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// `metadata.namespace`: namespace of the objects that may be used.
    pub namespace: Text,
    /// `spec.from`
    pub from: Arc<[GrantFrom]>,
    /// `spec.to`
    pub to: Arc<[GrantTo]>,
}

/// An entry of `spec.from`: objects that may refer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantFrom {
    /// `group`
    pub group: Text,
    /// `kind`
    pub kind: Text,
    /// `namespace`
    pub namespace: Text,
}

/// An entry of `spec.to`: objects that may be referred to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantTo {
    /// `group`
    pub group: Text,
    /// `kind`
    pub kind: Text,
    /// `name`; absent or empty is every object of the kind.
    pub name: Option<Text>,
}
