//! A program's informers, always up to date.

use std::collections::BTreeMap;
use std::sync::Arc;

use sidecar::kube::interner::Interner;
use sidecar::kube::objects::node_selector;
use sidecar::node_selector::selects;

use crate::model::{
    Claim, Class, Content, Group, GroupClass, GroupContent, Node, Snapshot, Text, Volume,
};
use crate::plan::{Informers, Settings};

#[derive(Default)]
pub(crate) struct Known {
    pub(crate) settings: Settings,
    pub(crate) snapshots: BTreeMap<Text, Arc<Snapshot>>,
    pub(crate) contents: BTreeMap<Text, Arc<Content>>,
    pub(crate) classes: BTreeMap<Text, Arc<Class>>,
    pub(crate) claims: BTreeMap<Text, Arc<Claim>>,
    pub(crate) volumes: BTreeMap<Text, Arc<Volume>>,
    pub(crate) nodes: BTreeMap<Text, Arc<Node>>,
    pub(crate) no_groups: bool,
    pub(crate) groups: BTreeMap<Text, Arc<Group>>,
    pub(crate) group_contents: BTreeMap<Text, Arc<GroupContent>>,
    pub(crate) group_classes: BTreeMap<Text, Arc<GroupClass>>,
}

impl Informers for Known {
    fn settings(&self) -> Settings {
        self.settings
    }

    fn snapshot(&self, key: &str) -> Option<Arc<Snapshot>> {
        self.snapshots.get(key).cloned()
    }

    fn content(&self, name: &str) -> Option<Arc<Content>> {
        self.contents.get(name).cloned()
    }

    fn class(&self, name: &str) -> Option<Arc<Class>> {
        self.classes.get(name).cloned()
    }

    fn default_classes(&self, driver: &str) -> Vec<Text> {
        let of = self.classes.iter();
        of.filter(|(_, class)| class.default && *class.driver == *driver)
            .map(|(name, _)| name.clone())
            .collect()
    }

    fn claim(&self, key: &str) -> Option<Arc<Claim>> {
        self.claims.get(key).cloned()
    }

    fn volume(&self, name: &str) -> Option<Arc<Volume>> {
        self.volumes.get(name).cloned()
    }

    fn volume_of(&self, driver: &str, handle: &str) -> Option<Arc<Volume>> {
        let is = |volume: &Volume| {
            volume
                .csi
                .as_ref()
                .is_some_and(|csi| csi.is(driver, handle))
        };
        let mut found = self.volumes.values().filter(|volume| is(volume));
        let first = found.next().cloned();
        first.filter(|_| found.next().is_none())
    }

    fn groups(&self) -> bool {
        !self.no_groups
    }

    fn group(&self, key: &str) -> Option<Arc<Group>> {
        self.groups.get(key).cloned()
    }

    fn group_content(&self, name: &str) -> Option<Arc<GroupContent>> {
        self.group_contents.get(name).cloned()
    }

    fn group_class(&self, name: &str) -> Option<Arc<GroupClass>> {
        self.group_classes.get(name).cloned()
    }

    fn default_group_classes(&self, driver: &str) -> Vec<Text> {
        let of = self.group_classes.iter();
        of.filter(|(_, class)| class.0.default && *class.0.driver == *driver)
            .map(|(name, _)| name.clone())
            .collect()
    }

    fn node_for(&self, affinity: &str) -> Option<Text> {
        let terms = node_selector::terms(affinity, &Interner::default()).unwrap_or_default();
        let mut fits = self
            .nodes
            .iter()
            .filter(|(name, node)| selects(&terms, Some(name), &node.labels));
        fits.next().map(|(name, _)| name.clone())
    }
}
