//! Actions of backup tools, and of people who remove by force objects that the programs rely on.

use serde_json::{Value, json};
use sidecar::snapshot::SNAPSHOT_IN_GROUP;
use sidecar::text::Text;
use sidecar_testkit::sim::server::{finalizers, key_of};

use super::check::is_deleting;
use super::groups::{is_member, owner_of};
use super::kind::Kind;
use super::objects::{applied_again, restored_elsewhere};
use super::users::{HOLDER, NAMES};
use super::world::{Faults, World};

/// Key of the content's VolumeSnapshot.
fn snapshot_of(content: &Value) -> String {
    let of = &content["spec"]["volumeSnapshotRef"];
    let part = |name: &str| of[name].as_str().unwrap_or_default();
    format!("{}/{}", part("namespace"), part("name"))
}

impl World {
    /// A backup tool keeps a snapshot through its content: it removes the VolumeSnapshot's finalizers and deletes it.
    pub(super) fn someone_cuts_loose(&mut self) {
        let all = self.server.all(Kind::Content);
        let loose = all.filter(|(_, content)| {
            content["spec"]["deletionPolicy"] == "Retain"
                && !is_deleting(content)
                && self.owner(content).is_some()
                && !is_member(content)
        });
        let loose: Vec<_> = loose
            .map(|(name, content)| (name.clone(), snapshot_of(content)))
            .collect();
        if loose.is_empty() {
            return;
        }
        let (content, snapshot) = self.dice.of(&loose).clone();
        self.seen.loose.insert(content);
        self.server.strip(Kind::Snapshot, &snapshot);
    }

    /// A backup tool keeps a ready member when its group goes: it removes the owner and the finalizer that mark it as
    /// a member.
    pub(super) fn someone_frees_a_member(&mut self) {
        let usable = |one: &Value| {
            owner_of(one).is_some() && !is_deleting(one) && one["status"]["readyToUse"] == true
        };
        let all = { self.server.all(Kind::Snapshot) }.filter(|(_, one)| usable(one));
        let members: Vec<Text> = all.map(|(key, _)| key.clone()).collect();
        if members.is_empty() {
            return;
        }
        let key = self.dice.of(&members).clone();
        let bare = self.dice.one_in(2);
        let member = self.server.get(Kind::Snapshot, &key).unwrap();
        let uid = Text::from(member["metadata"]["uid"].as_str().unwrap());
        if bare {
            // Until the controller notices, no finalizer holds it: whoever deletes it leaves its content behind.
            self.seen.stripped.insert(uid.clone());
        }
        self.seen.cut.insert(uid);
        self.edit(Kind::Snapshot, &key, |member| {
            member["metadata"]["ownerReferences"] = Value::Null;
            let mut left = finalizers(member);
            left.retain(|one| !bare && one != SNAPSHOT_IN_GROUP);
            member["metadata"]["finalizers"] = json!(left);
        });
    }

    /// A backup tool applies a VolumeSnapshot and its content again, under new names.
    pub(super) fn someone_applies_again(&mut self) {
        let name = *self.dice.of(&NAMES);
        if { self.server.get(Kind::Snapshot, &format!("ns/{name}")) }.is_some() {
            return;
        }
        self.uids += 1;
        let (mut content, again) = applied_again(name, &format!("U{}", self.uids));
        // An older tool applies no finalizers, and an older csi-snapshotter would not add them.
        let bare = self.crowded && !self.older && self.dice.one_in(2);
        if bare {
            content["metadata"]["finalizers"] = json!([]);
        }
        let kept = key_of(&content);
        self.add(Kind::Content, content);
        if bare && self.dice.one_in(2) {
            self.edit(Kind::Content, &kept, |content| {
                content["metadata"]["finalizers"] = json!([HOLDER]);
            });
        }
        self.add(Kind::Snapshot, again);
    }

    /// A claim of another namespace tries to restore.
    pub(super) fn someone_restores_elsewhere(&mut self) {
        let name = *self.dice.of(&NAMES);
        if { self.server.get(Kind::Claim, &format!("away/r-{name}")) }.is_none() {
            self.add(Kind::Claim, restored_elsewhere(name));
        }
    }

    pub(super) fn someone_does_harm(&mut self) {
        match self.faults {
            Faults::None | Faults::Crashes => {}
            Faults::All => {
                let Some(name) = self.any(Kind::Content) else {
                    return;
                };
                // The finalizers are removed as well: the snapshot now belongs to the users.
                let content = self.server.get(Kind::Content, &name).unwrap().clone();
                self.outlives(&content);
                self.robs(&content);
                self.server.strip(Kind::Content, &name);
                self.look();
            }
            Faults::Strips => {
                let Some(key) = self.any(Kind::Snapshot) else {
                    return;
                };
                let snapshot = self.server.get(Kind::Snapshot, &key).unwrap();
                let uid = snapshot["metadata"]["uid"].as_str().unwrap();
                self.seen.stripped.insert(uid.into());
                self.server.strip(Kind::Snapshot, &key);
            }
        }
    }
}
