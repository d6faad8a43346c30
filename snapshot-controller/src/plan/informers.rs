//! The caches and settings that decisions read.
//!
//! A trait, because the process has caches that other tasks fill, and the crash simulation has its
//! own.

use std::sync::Arc;

use super::Settings;
use crate::model::{
    Claim, Class, Content, Group, GroupClass, GroupContent, Kind, Snapshot, Text, Volume,
};

/// The newest objects that this process knows. Keys are `name` or `namespace/name`.
pub trait Informers {
    /// Flags and gates.
    fn settings(&self) -> Settings;
    /// The VolumeSnapshot with this key.
    fn snapshot(&self, key: &str) -> Option<Arc<Snapshot>>;
    /// The VolumeSnapshotContent of this name.
    fn content(&self, name: &str) -> Option<Arc<Content>>;
    /// The VolumeSnapshotClass of this name.
    fn class(&self, name: &str) -> Option<Arc<Class>>;
    /// Names of all VolumeSnapshotClasses that are this driver's default.
    fn default_classes(&self, driver: &str) -> Vec<Text>;
    /// The claim with this key.
    fn claim(&self, key: &str) -> Option<Arc<Claim>>;
    /// The PersistentVolume of this name.
    fn volume(&self, name: &str) -> Option<Arc<Volume>>;
    /// The PersistentVolume of `driver` with this handle; `None` if there are several.
    fn volume_of(&self, driver: &str, handle: &str) -> Option<Arc<Volume>>;
    /// Whether group snapshots are served: the gate is on, and the caches of their kinds are filled.
    fn groups(&self) -> bool;
    /// Whether the group kinds are still being listed, so that it will be known soon whether groups
    /// are served.
    fn groups_are_awaited(&self) -> bool {
        false
    }
    /// The VolumeGroupSnapshot with this key.
    fn group(&self, key: &str) -> Option<Arc<Group>>;
    /// The VolumeGroupSnapshotContent of this name.
    fn group_content(&self, name: &str) -> Option<Arc<GroupContent>>;
    /// The VolumeGroupSnapshotClass of this name.
    fn group_class(&self, name: &str) -> Option<Arc<GroupClass>>;
    /// Names of all VolumeGroupSnapshotClasses that are this driver's default.
    fn default_group_classes(&self, driver: &str) -> Vec<Text>;
    /// The class of this name, of VolumeSnapshots or of VolumeGroupSnapshots.
    fn class_of(&self, kind: Kind, name: &str) -> Option<Arc<Class>> {
        match kind {
            Kind::Single => self.class(name),
            Kind::Group => self
                .group_class(name)
                .map(|class| Arc::new(class.0.clone())),
        }
    }
    /// The first node, by name, that matches a volume's affinity.
    fn node_for(&self, affinity: &str) -> Option<Text>;
}
