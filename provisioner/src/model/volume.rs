//! PersistentVolume: the record of a volume that exists.
//!
//! PersistentVolumes are the most numerous objects. For most of them nothing is due, and the cache keeps only the name;
//! it keeps the details once the volume may have to be deleted.

use std::sync::Arc;

use migration::TRANSLATOR;
use sidecar::node_selector;

use super::{List, Text, VolumeMode};
use crate::keys::VOLUME_FINALIZER;

/// A `core/v1` PersistentVolume as the cache keeps it, under its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Volume {
    /// The volume needs no work; only its existence matters.
    NameOnly,
    /// The finalizer has to be added or removed, if the volume is of our driver.
    Finalizer(Arc<FinalizerDue>),
    /// Released or being deleted, and the volume in the storage system has to be deleted with it.
    Deletable(Arc<VolumeDetail>),
}

impl Volume {
    /// Whether it is being deleted together with its volume.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        match self {
            Self::Deletable(volume) => volume.is_leaving(),
            Self::NameOnly | Self::Finalizer(..) => false,
        }
    }
}

/// A volume whose finalizer has to be added or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FinalizerDue {
    /// Whether to add or to remove it.
    pub action: FinalizerAction,
    /// Determines whether the volume is our driver's.
    pub owner: Owner,
    /// `metadata.uid`: another object of the same name is new work, even if it looks the same.
    pub uid: Text,
}

/// The change that is due for [`VOLUME_FINALIZER`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FinalizerAction {
    /// The volume is bound, its policy is Delete, and it has no finalizer yet.
    #[default]
    Add,
    /// The policy keeps the volume, and it still has the finalizer.
    Remove,
}

/// The fields that say which driver or plugin a volume belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Annotation [`PROVISIONED_BY`](crate::keys::PROVISIONED_BY).
    pub provisioned_by: Option<Text>,
    /// Annotation [`MIGRATED_TO`](crate::keys::MIGRATED_TO).
    pub migrated_to: Option<Text>,
    /// `spec.csi.driver`, or the driver that replaced the plugin of an in-tree source; `None` for any
    /// other source.
    pub csi_driver: Option<Text>,
    /// Whether the source is an in-tree plugin's.
    pub in_tree: bool,
}

/// A PersistentVolume, with every field that the provisioner ever reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeDetail {
    /// `metadata.name`.
    pub name: Text,
    /// `metadata.uid`.
    pub uid: Text,
    /// `metadata.resourceVersion`, 0 if it is no number.
    pub version: u64,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.finalizers`, in order.
    pub finalizers: List,
    /// Determines whether the volume is our driver's.
    pub owner: Owner,
    /// `status.phase`.
    pub phase: VolumePhase,
    /// `spec.persistentVolumeReclaimPolicy`.
    pub reclaim: Reclaim,
    /// Beta annotation, else `spec.storageClassName`, else empty.
    pub class: Text,
    /// `spec.storageClassName`, else empty: label of the deletion metrics.
    pub class_field: Text,
    /// `spec.claimRef`.
    pub claim: Option<ClaimRef>,
    /// `spec.volumeMode`.
    pub mode: Option<VolumeMode>,
    /// The volume source.
    pub source: Source,
    /// Annotation [`DELETION_SECRET_NAME`](crate::keys::DELETION_SECRET_NAME).
    pub deletion_secret_name: Option<Text>,
    /// Annotation [`DELETION_SECRET_NAMESPACE`](crate::keys::DELETION_SECRET_NAMESPACE).
    pub deletion_secret_namespace: Option<Text>,
    /// `spec.nodeAffinity.required.nodeSelectorTerms`, translated to the driver's keys for an in-tree volume; `None`
    /// where there is no affinity.
    pub affinity: Option<Arc<[node_selector::Term]>>,
}

impl VolumeDetail {
    /// Whether it carries [`VOLUME_FINALIZER`].
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.finalizers
            .iter()
            .any(|held| &**held == VOLUME_FINALIZER)
    }

    /// The driver that its source names, or that replaced the in-tree plugin of its source.
    #[must_use]
    pub fn driver(&self) -> Option<&str> {
        match &self.source {
            Source::Csi(csi) => Some(&csi.driver),
            Source::InTree(source) => Some(source.driver),
            Source::Other => None,
        }
    }

    /// The volume handle under which `driver` knows the volume; `None` if it is another driver's, or an in-tree source
    /// that cannot be translated.
    #[must_use]
    pub fn handle_of(&self, driver: &str) -> Option<&str> {
        let csi = match &self.source {
            Source::Csi(csi) => csi,
            Source::InTree(source) => source.csi.as_ref().ok()?,
            Source::Other => return None,
        };
        (self.driver() == Some(driver)).then_some(&*csi.handle)
    }

    /// Whether this PersistentVolume refers to volume `handle` of `driver`. An in-tree source carries less than the
    /// driver's volume handle, and counts as soon as it may refer to the volume: a volume with a PersistentVolume must
    /// not be taken for one without.
    #[must_use]
    pub fn is_of(&self, driver: &str, handle: &str) -> bool {
        self.driver() == Some(driver)
            && match &self.source {
                Source::Csi(csi) => *csi.handle == *handle,
                Source::InTree(source) => match &source.csi {
                    Ok(csi) => TRANSLATOR.may_be_one(driver, &csi.handle, handle),
                    Err(_) => true,
                },
                Source::Other => false,
            }
    }

    /// Whether it is for the claim of this UID, or its `claimRef` has no UID.
    #[must_use]
    pub fn is_for(&self, uid: &str) -> bool {
        let claim = self.claim.as_ref().map(|claim| &*claim.uid);
        claim.is_none_or(|claim| claim.is_empty() || *claim == *uid)
    }

    /// Whether it is a volume of `driver` with an in-tree source whose ID differs from the driver's volume handle and
    /// may change.
    #[must_use]
    pub fn has_other_id(&self, driver: &str) -> bool {
        let in_tree = matches!(self.source, Source::InTree(_));
        in_tree && self.driver() == Some(driver) && !TRANSLATOR.identifies_volumes_of(driver)
    }

    /// Whether it is being deleted together with its volume. The volume of a bound PersistentVolume is not deleted,
    /// even if somebody has deleted the object.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        let released = self.phase == VolumePhase::Released && self.reclaim == Reclaim::Delete;
        released || self.deleting && self.phase != VolumePhase::Bound
    }

    /// The part of it that the cache has to keep.
    #[must_use]
    pub fn keep(self) -> Volume {
        let protected = self.is_protected();
        match Due::of(self.reclaim, self.phase, self.deleting, protected) {
            Due::Nothing => Volume::NameOnly,
            Due::FinalizerAction(action) => Volume::Finalizer(Arc::new(FinalizerDue {
                action,
                owner: self.owner,
                uid: self.uid,
            })),
            Due::End => Volume::Deletable(Arc::new(self)),
        }
    }
}

/// The work that may be due for a volume, whichever driver it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// No work is due.
    Nothing,
    /// The volume's finalizer has to be added or removed.
    FinalizerAction(FinalizerAction),
    /// The volume has to be deleted, or is being deleted.
    End,
}

impl Due {
    /// The work that is due for a volume of this policy and phase. `protected`: it carries [`VOLUME_FINALIZER`].
    #[must_use]
    pub fn of(reclaim: Reclaim, phase: VolumePhase, deleting: bool, protected: bool) -> Self {
        match (reclaim, protected) {
            (Reclaim::Delete, _) if deleting || phase == VolumePhase::Released => Self::End,
            (Reclaim::Delete, false) if phase == VolumePhase::Bound => {
                Self::FinalizerAction(FinalizerAction::Add)
            }
            (Reclaim::Retain | Reclaim::Recycle, true) => {
                Self::FinalizerAction(FinalizerAction::Remove)
            }
            (Reclaim::Delete | Reclaim::Other, _) | (Reclaim::Retain | Reclaim::Recycle, false) => {
                Self::Nothing
            }
        }
    }
}

/// `spec.claimRef`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimRef {
    /// `namespace`
    pub namespace: Text,
    /// `name`
    pub name: Text,
    /// `uid`
    pub uid: Text,
}

/// `status.phase` of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VolumePhase {
    /// Not set yet, or any other text.
    #[default]
    Other,
    /// `Pending`
    Pending,
    /// `Available`
    Available,
    /// `Bound`
    Bound,
    /// `Released`
    Released,
    /// `Failed`
    Failed,
}

impl VolumePhase {
    /// The phase that the API spells `text`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "Pending" => Self::Pending,
            "Available" => Self::Available,
            "Bound" => Self::Bound,
            "Released" => Self::Released,
            "Failed" => Self::Failed,
            _ => Self::Other,
        }
    }
}

/// `spec.persistentVolumeReclaimPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reclaim {
    /// Unset, or anything else.
    #[default]
    Other,
    /// `Delete`
    Delete,
    /// `Retain`
    Retain,
    /// `Recycle`
    Recycle,
}

impl Reclaim {
    /// The policy that the API spells `text`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "Delete" => Self::Delete,
            "Retain" => Self::Retain,
            "Recycle" => Self::Recycle,
            _ => Self::Other,
        }
    }
}

/// The source of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// `spec.csi`
    Csi(Csi),
    /// The source of an in-tree plugin that a CSI driver replaced.
    InTree(Box<InTree>),
    /// Any other source, or none.
    #[default]
    Other,
}

/// The fields of `spec.csi` that the provisioner reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Csi {
    /// `driver`
    pub driver: Text,
    /// `volumeHandle`: the driver's ID of the volume.
    pub handle: Text,
}

/// The source of an in-tree plugin; only its translation for the CSI driver is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InTree {
    /// Name of the CSI driver that replaced the plugin.
    pub driver: &'static str,
    /// The translated source, or the error of the translation.
    pub csi: Result<Csi, Text>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_due_is_kept() {
        use Reclaim::{Delete, Other, Recycle, Retain};
        use VolumePhase::{Available, Bound, Failed, Released};
        let quiet = Volume::NameOnly;
        let due = |action| {
            Volume::Finalizer(Arc::new(FinalizerDue {
                action,
                uid: "u".into(),
                ..FinalizerDue::default()
            }))
        };
        let add = due(FinalizerAction::Add);
        let remove = due(FinalizerAction::Remove);
        let rows = [
            ("210", Bound, Delete, false, &add),
            ("bound and protected", Bound, Delete, true, &quiet),
            ("208", Available, Delete, false, &quiet),
            ("208", Failed, Delete, true, &quiet),
            ("198", Bound, Retain, true, &remove),
            ("198 not bound yet", Available, Retain, true, &remove),
            ("recycle", Failed, Recycle, true, &remove),
            ("209", Released, Retain, true, &remove),
            ("209 clean", Released, Retain, false, &quiet),
            ("retain, clean", Bound, Retain, false, &quiet),
            ("no policy", Bound, Other, true, &quiet),
        ];
        let detail = |phase, reclaim, protected: bool| VolumeDetail {
            phase,
            reclaim,
            finalizers: if protected {
                Arc::from([Text::from(VOLUME_FINALIZER)])
            } else {
                Arc::from([])
            },
            uid: "u".into(),
            ..VolumeDetail::default()
        };
        for (row, phase, reclaim, protected, kept) in rows {
            assert_eq!(&detail(phase, reclaim, protected).keep(), kept, "{row}");
        }
        let released = detail(Released, Delete, true);
        assert_eq!(
            released.clone().keep(),
            Volume::Deletable(Arc::new(released))
        );
        let deleting = VolumeDetail {
            deleting: true,
            ..detail(Bound, Delete, false)
        };
        assert_eq!(
            deleting.clone().keep(),
            Volume::Deletable(Arc::new(deleting))
        );
    }

    #[test]
    fn a_volume_that_calls_for_nothing_is_small() {
        assert!(size_of::<Volume>() <= 64, "{}", size_of::<Volume>());
        // In-tree sources are boxed, so that they cost no other volume any memory.
        assert!(size_of::<Source>() <= size_of::<Csi>() + 8);
    }

    #[test]
    fn in_tree_volumes_are_recognised_by_what_their_sources_say() {
        const GCE: &str = "pd.csi.storage.gke.io";
        const FILE: &str = "file.csi.azure.com";
        let csi = |driver: &str, handle: &str| Csi {
            driver: driver.into(),
            handle: handle.into(),
        };
        let native = |driver, handle| VolumeDetail {
            source: Source::Csi(csi(driver, handle)),
            ..VolumeDetail::default()
        };
        let in_tree = |driver: &'static str, handle| VolumeDetail {
            source: Source::InTree(Box::new(InTree {
                driver,
                csi: Ok(csi(driver, handle)),
            })),
            ..VolumeDetail::default()
        };
        let untranslatable = VolumeDetail {
            source: Source::InTree(Box::new(InTree {
                driver: GCE,
                csi: Err("no".into()),
            })),
            ..VolumeDetail::default()
        };
        let disk = "projects/p/zones/z/disks/d";
        let unspecified = "projects/UNSPECIFIED/zones/z/disks/d";
        let rows = [
            ("native", native(GCE, disk), GCE, disk, true),
            ("another driver's", native("x", disk), GCE, disk, false),
            (
                "native is exact",
                native(GCE, unspecified),
                GCE,
                disk,
                false,
            ),
            ("in-tree", in_tree(GCE, unspecified), GCE, disk, true),
            ("for another", in_tree(GCE, disk), FILE, disk, false),
            ("cannot be said", untranslatable.clone(), GCE, disk, true),
            (
                "cannot be said, for another",
                untranslatable,
                FILE,
                disk,
                false,
            ),
            ("no source", VolumeDetail::default(), GCE, disk, false),
            (
                "a share",
                in_tree(FILE, "#a#s#pv#ns"),
                FILE,
                "rg#a#s#uuid",
                true,
            ),
        ];
        for (row, volume, driver, handle, expected) in rows {
            assert_eq!(volume.is_of(driver, handle), expected, "{row}");
        }
    }
}
