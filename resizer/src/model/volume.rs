//! PersistentVolume: how large the volume is, and what a request to its driver needs.
//!
//! PersistentVolumes are as numerous as claims: every field here costs memory times their number,
//! and everything that repeats is shared.

use std::sync::Arc;

use super::{List, Quantity, SecretRef, Text, Uid};

/// What the resizer reads of a PersistentVolume. The name is the key under which it is cached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// `spec.csi.volumeHandle`, or that of an in-tree volume in its driver's words: the driver's id
    /// of the volume. Empty where there is none.
    pub handle: Text,
    /// `spec.capacity.storage`.
    pub capacity: Option<Quantity>,
    /// `spec.claimRef`.
    pub claim: Option<ClaimRef>,
    /// Annotation [`PRE_RESIZE_CAPACITY`](crate::keys::PRE_RESIZE_CAPACITY).
    pub pre_resize: Option<Box<PreResize>>,
    /// What it has in common with other volumes of its class.
    pub kind: Arc<VolumeKind>,
}

/// `spec.claimRef` of a PersistentVolume. Its `name` is kept in [`PreResize`] alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRef {
    /// `namespace`.
    pub namespace: Text,
    /// `uid`.
    pub uid: Uid,
}

/// Of a volume with the annotation [`PRE_RESIZE_CAPACITY`](crate::keys::PRE_RESIZE_CAPACITY), which
/// an expansion leaves for as long as the node has to do its part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreResize {
    /// The annotation, as written.
    pub capacity: Text,
    /// `spec.claimRef.name`: the claim to look at until the annotation is gone.
    pub claim: Text,
}

/// What volumes of one class have in common mostly: one copy serves them all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct VolumeKind {
    /// The volume's source.
    pub source: Source,
    /// `spec.accessModes`, as written; of an in-tree volume those that its CSI driver is to be asked
    /// for.
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

/// Where a volume comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Source {
    /// `csi`.
    Csi(CsiSource),
    /// A source of an in-tree plugin that a CSI driver replaced.
    InTree(Box<InTree>),
    /// Any other source, or none.
    #[default]
    Other,
}

/// `spec.csi` of a PersistentVolume, but for the handle. What no request carries is not kept:
/// `volumeAttributes`, and whether it is read-only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CsiSource {
    /// `driver`.
    pub driver: Text,
    /// `fsType`, empty where unset.
    pub fs_type: Text,
    /// `controllerExpandSecretRef`.
    pub expand_secret: Option<SecretRef>,
}

/// Source of an in-tree plugin, of which nothing is kept but what the CSI driver is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InTree {
    /// Name of the CSI driver that replaced the plugin.
    pub driver: &'static str,
    /// The source in that driver's words, or why it cannot be said in them.
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

    /// Whether it is one that `driver` serves: of the driver itself, or of the in-tree plugin that it
    /// replaced.
    #[must_use]
    pub fn is_served_by(&self, driver: &str) -> bool {
        match &self.kind.source {
            Source::Csi(source) => *source.driver == *driver,
            Source::InTree(source) => source.driver == driver,
            Source::Other => false,
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
        // With a text for the handle and one for the name that is what each of 50,000 costs.
        assert!(size_of::<Volume>() <= 88, "{}", size_of::<Volume>());
        // What in-tree sources need on top is beside it, so that no other volume pays for them.
        assert!(size_of::<Source>() <= 72, "{}", size_of::<Source>());
    }
}
