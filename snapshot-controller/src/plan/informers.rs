//! What decisions may look at: the caches and the settings.
//!
//! A trait, because the process reads caches that other tasks fill, and the crash simulation reads its
//! own.

use std::sync::Arc;

use super::Settings;
use crate::model::{
    Claim, Class, Content, Group, GroupClass, GroupContent, Snapshot, Text, Volume,
};

/// The newest that this process knows. Keys are `name` or `namespace/name`.
pub trait Informers {
    /// What flags say.
    fn settings(&self) -> Settings;
    /// The VolumeSnapshot with this key.
    fn snapshot(&self, key: &str) -> Option<Arc<Snapshot>>;
    /// The VolumeSnapshotContent of this name.
    fn content(&self, name: &str) -> Option<Arc<Content>>;
    /// The VolumeSnapshotClass of this name.
    fn class(&self, name: &str) -> Option<Arc<Class>>;
    /// Names of all VolumeSnapshotClasses that are the default of this driver.
    fn default_classes(&self, driver: &str) -> Vec<Text>;
    /// The claim with this key.
    fn claim(&self, key: &str) -> Option<Arc<Claim>>;
    /// The PersistentVolume of this name.
    fn volume(&self, name: &str) -> Option<Arc<Volume>>;
    /// The one PersistentVolume that `driver` calls `handle`.
    fn volume_of(&self, driver: &str, handle: &str) -> Option<Arc<Volume>>;
    /// Whether group snapshots are served: the feature is on, and their kinds are there.
    fn groups(&self) -> bool;
    /// Whether that is not settled yet, but will be soon: their kinds are being listed.
    fn groups_are_awaited(&self) -> bool {
        false
    }
    /// The VolumeGroupSnapshot with this key.
    fn group(&self, key: &str) -> Option<Arc<Group>>;
    /// The VolumeGroupSnapshotContent of this name.
    fn group_content(&self, name: &str) -> Option<Arc<GroupContent>>;
    /// The VolumeGroupSnapshotClass of this name.
    fn group_class(&self, name: &str) -> Option<Arc<GroupClass>>;
    /// Names of all VolumeGroupSnapshotClasses that are the default of this driver.
    fn default_group_classes(&self, driver: &str) -> Vec<Text>;
    /// The first node, by name, that fits a volume's affinity.
    fn node_for(&self, affinity: &str) -> Option<Text>;
}
