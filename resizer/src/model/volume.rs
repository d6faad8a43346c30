//! PersistentVolume: its capacity, and the fields that requests to its driver need.
//!
//! PersistentVolumes are as numerous as claims: each field here costs memory times their number, so
//! repeated values are shared.

use std::sync::Arc;

use super::{List, Quantity, SecretRef, Text, Uid};

/// A PersistentVolume, as far as the resizer reads it; cached under its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// `spec.csi.volumeHandle`; for an in-tree volume the translated handle. Empty without one.
    pub handle: Text,
    /// `spec.capacity.storage`.
    pub capacity: Option<Quantity>,
    /// `spec.claimRef`.
    pub claim: Option<ClaimRef>,
    /// Annotation [`PRE_RESIZE_CAPACITY`](crate::keys::PRE_RESIZE_CAPACITY).
    pub pre_resize: Option<Box<PreResize>>,
    /// The fields that it shares with other volumes of its class.
    pub kind: Arc<VolumeKind>,
}

/// `spec.claimRef` of a PersistentVolume. Only [`PreResize`] holds its `name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRef {
    /// `namespace`.
    pub namespace: Text,
    /// `uid`.
    pub uid: Uid,
}

/// Part of a volume with the annotation [`PRE_RESIZE_CAPACITY`](crate::keys::PRE_RESIZE_CAPACITY),
/// which an expansion leaves there until the node has finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreResize {
    /// The annotation, as written.
    pub capacity: Text,
    /// `spec.claimRef.name`: the claim to watch until the annotation is removed.
    pub claim: Text,
}

/// The fields that volumes of one class usually share; one copy serves all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct VolumeKind {
    /// The volume's source.
    pub source: Source,
    /// `spec.accessModes`, as written; for an in-tree volume the translated modes.
    pub access_modes: List,
    /// Whether `spec.volumeMode` is `Block`.
    pub block: bool,
    /// `spec.mountOptions`, in order.
    pub mount_options: List,
    /// `spec.volumeAttributesClassName`.
    pub class: Option<Text>,
    /// Annotations [`MODIFY_SECRET_NAME`](crate::keys::MODIFY_SECRET_NAME) and
    /// [`MODIFY_SECRET_NAMESPACE`](crate::keys::MODIFY_SECRET_NAMESPACE), if neither is empty.
    pub modify_secret: Option<SecretRef>,
}

/// The source of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Source {
    /// `csi`.
    Csi(CsiSource),
    /// A source of an in-tree plugin that a CSI driver has replaced.
    InTree(Box<InTree>),
    /// Any other source, or none.
    #[default]
    Other,
}

/// `spec.csi` of a PersistentVolume without the handle. Fields that no request carries are dropped:
/// `volumeAttributes` and `readOnly`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CsiSource {
    /// `driver`.
    pub driver: Text,
    /// `fsType`, empty where unset.
    pub fs_type: Text,
    /// `controllerExpandSecretRef`.
    pub expand_secret: Option<SecretRef>,
}

/// An in-tree source, of which only the translation is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InTree {
    /// Name of the CSI driver that has replaced the plugin.
    pub driver: &'static str,
    /// The translated source, or why the translation failed.
    pub csi: Result<CsiSource, Text>,
}

impl Volume {
    /// The CSI source, if it is one of `driver`.
    #[must_use]
    pub fn csi(&self, driver: &str) -> Option<&CsiSource> {
        match &self.kind.source {
            Source::Csi(source) if *source.driver == *driver => Some(source),
            Source::Csi(_) | Source::InTree(_) | Source::Other => None,
        }
    }

    /// Whether `driver` serves it: it is the volume's own driver, or has replaced its in-tree plugin.
    #[must_use]
    pub fn is_served_by(&self, driver: &str) -> bool {
        self.driver() == Some(driver)
    }

    /// The driver that serves it, if one does.
    #[must_use]
    pub fn driver(&self) -> Option<&str> {
        match &self.kind.source {
            Source::Csi(source) => Some(&source.driver),
            Source::InTree(source) => Some(source.driver),
            Source::Other => None,
        }
    }

    /// Key of its claim, `namespace/name`, if it has the annotation
    /// [`PRE_RESIZE_CAPACITY`](crate::keys::PRE_RESIZE_CAPACITY).
    #[must_use]
    pub fn annotated_claim(&self) -> Option<Text> {
        let (claim, annotated) = self.claim.as_ref().zip(self.pre_resize.as_ref())?;
        Some(format!("{}/{}", claim.namespace, annotated.claim).into())
    }

    /// Whether it is bound to the claim of this namespace and UID.
    #[must_use]
    pub fn belongs_to(&self, namespace: &str, uid: &Uid) -> bool {
        let claim = self.claim.as_ref();
        claim.is_some_and(|claim| *claim.namespace == *namespace && claim.uid == *uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_small() {
        // Each of 50,000 volumes has this size, with one text for the handle and one for the name.
        assert!(size_of::<Volume>() <= 88, "{}", size_of::<Volume>());
        // In-tree sources keep the rest in a box, so that other volumes do not pay for it.
        assert!(size_of::<Source>() <= 72, "{}", size_of::<Source>());
    }
}
