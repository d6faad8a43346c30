//! ReferenceGrant: which namespaces may use objects of another one.
//!
//! It is read only with the gate `CrossNamespaceVolumeDataSource`.

use std::sync::Arc;

use super::Text;

/// What the provisioner reads of a `gateway.networking.k8s.io/v1beta1` ReferenceGrant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// `metadata.namespace`: where the objects are that may be used.
    pub namespace: Text,
    /// `spec.from`
    pub from: Arc<[GrantFrom]>,
    /// `spec.to`
    pub to: Arc<[GrantTo]>,
}

/// Who may refer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantFrom {
    /// `group`
    pub group: Text,
    /// `kind`
    pub kind: Text,
    /// `namespace`
    pub namespace: Text,
}

/// To what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantTo {
    /// `group`
    pub group: Text,
    /// `kind`
    pub kind: Text,
    /// `name`; absent or empty is every object of the kind.
    pub name: Option<Text>,
}
