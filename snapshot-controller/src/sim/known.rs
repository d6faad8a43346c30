//! The caches of one process, as the controller sees them.

use std::sync::Arc;

use sidecar_testkit::sim::informer::Informer;

use super::mutant::Mutant;
use crate::model::{
    Claim, Class, Content, Group, GroupClass, GroupContent, Snapshot, Text, Volume,
};
use crate::plan::{Informers, Settings};
use crate::testing::server::{Kind, Server};

pub(super) type Watch<R> = Informer<Kind, R>;

/// What the controller looks at.
pub(super) struct Known {
    pub(super) mutant: Mutant,
    /// Whether group snapshots are switched on.
    serves_groups: bool,
    pub(super) snapshots: Watch<Snapshot>,
    pub(super) contents: Watch<Content>,
    pub(super) classes: Watch<Class>,
    pub(super) claims: Watch<Claim>,
    pub(super) volumes: Watch<Volume>,
    pub(super) groups: Watch<Group>,
    pub(super) group_contents: Watch<GroupContent>,
    pub(super) group_classes: Watch<GroupClass>,
}

impl Informers for Known {
    fn settings(&self) -> Settings {
        Settings {
            keep_mode: true,
            ..Settings::default()
        }
    }

    fn snapshot(&self, key: &str) -> Option<Arc<Snapshot>> {
        let snapshot = self.snapshots.store.get(key)?;
        Some(self.mutant.sees_snapshot(snapshot))
    }

    fn content(&self, name: &str) -> Option<Arc<Content>> {
        let content = self.contents.store.get(name)?;
        Some(self.mutant.sees_content(content))
    }

    fn class(&self, name: &str) -> Option<Arc<Class>> {
        self.classes.store.get(name).cloned()
    }

    fn default_classes(&self, driver: &str) -> Vec<Text> {
        let all = self.classes.store.iter();
        all.filter(|(_, class)| class.default && *class.driver == *driver)
            .map(|(key, _)| Text::from(key.as_str()))
            .collect()
    }

    fn claim(&self, key: &str) -> Option<Arc<Claim>> {
        self.claims.store.get(key).cloned()
    }

    fn volume(&self, name: &str) -> Option<Arc<Volume>> {
        self.volumes.store.get(name).cloned()
    }

    fn volume_of(&self, driver: &str, handle: &str) -> Option<Arc<Volume>> {
        let is = |volume: &Volume| {
            volume
                .csi
                .as_ref()
                .is_some_and(|csi| csi.is(driver, handle))
        };
        let mut all = self.volumes.store.iter();
        all.find_map(|(_, volume)| is(volume).then(|| Arc::clone(volume)))
    }

    fn groups(&self) -> bool {
        self.serves_groups
    }

    fn group(&self, key: &str) -> Option<Arc<Group>> {
        let group = self.groups.store.get(key)?;
        Some(self.mutant.sees_group(group))
    }

    fn group_content(&self, name: &str) -> Option<Arc<GroupContent>> {
        let content = self.group_contents.store.get(name)?;
        Some(self.mutant.sees_group_content(content))
    }

    fn group_class(&self, name: &str) -> Option<Arc<GroupClass>> {
        self.group_classes.store.get(name).cloned()
    }

    fn default_group_classes(&self, driver: &str) -> Vec<Text> {
        let all = self.group_classes.store.iter();
        all.filter(|(_, class)| class.0.default && *class.0.driver == *driver)
            .map(|(key, _)| Text::from(key.as_str()))
            .collect()
    }

    fn node_for(&self, _affinity: &str) -> Option<Text> {
        None
    }
}

impl Known {
    pub(super) fn new(mutant: Mutant, serves_groups: bool) -> Self {
        Self {
            mutant,
            serves_groups,
            snapshots: Watch::new(Kind::Snapshot),
            contents: Watch::new(Kind::Content),
            classes: Watch::new(Kind::Class),
            claims: Watch::new(Kind::Claim),
            volumes: Watch::new(Kind::Volume),
            groups: Watch::new(Kind::Group),
            group_contents: Watch::new(Kind::GroupContent),
            group_classes: Watch::new(Kind::GroupClass),
        }
    }

    /// Whether everything was listed once.
    pub(super) fn is_listed(&self) -> bool {
        self.snapshots.listed
            && self.contents.listed
            && self.classes.listed
            && self.claims.listed
            && self.volumes.listed
            && self.groups.listed
            && self.group_contents.listed
            && self.group_classes.listed
    }

    /// Whether everything was told.
    pub(super) fn is_current(&self, server: &Server) -> bool {
        self.snapshots.news(server).is_none()
            && self.contents.news(server).is_none()
            && self.classes.news(server).is_none()
            && self.claims.news(server).is_none()
            && self.volumes.news(server).is_none()
            && self.groups.news(server).is_none()
            && self.group_contents.news(server).is_none()
            && self.group_classes.news(server).is_none()
    }
}
