//! The informers of the controller's decisions.

use std::sync::Arc;

use sidecar::text::Text;
use snapshot_controller::model::{
    Claim, Class, Content, Group, GroupClass, GroupContent, Snapshot, Volume,
};
use snapshot_controller::plan::{Informers, Settings};

use super::Controller;

impl Informers for Controller {
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
            let csi = volume.csi.as_ref();
            csi.is_some_and(|csi| csi.is(driver, handle))
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

impl Controller {
    /// Whether, as far as is known, a claim waits for a restore from this content, and can get it.
    pub(super) fn is_restored(&self, content: &str) -> bool {
        let content = self.contents.store.get(content);
        let snapshot =
            content.and_then(|content| self.snapshots.store.get(&content.snapshot_key()));
        snapshot.is_some_and(|snapshot| self.is_awaited(snapshot))
    }

    fn is_awaited(&self, snapshot: &Snapshot) -> bool {
        let restores = Some(snapshot.key());
        // Claims of other namespaces have no grant.
        let claims = self.claims.store.iter();
        let mut claims = claims.filter(|(key, _)| key.as_str().starts_with("ns/"));
        snapshot.can_be_restored() && claims.any(|(_, claim)| claim.restores == restores)
    }

    /// The same for a member of this content's group.
    pub(super) fn is_group_restored(&self, content: &str) -> bool {
        let Some(content) = self.group_contents.store.get(content) else {
            return false;
        };
        let uid = &content.group.uid;
        let of = |snapshot: &Snapshot| snapshot.owner().is_some_and(|(owner, _)| owner == uid);
        let mut snapshots = self.snapshots.store.iter();
        snapshots.any(|(_, snapshot)| of(snapshot) && self.is_awaited(snapshot))
    }
}
