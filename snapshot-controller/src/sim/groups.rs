//! The sidecar of groups, and what is held of them.

use serde_json::{Value, json};
use sidecar::controller::request::{Body, Part};
use sidecar::snapshot::{
    GROUP_BEING_CREATED, GROUP_BEING_DELETED, GROUP_CONTENT_BOUND, GROUP_SNAPSHOT_BOUND,
    SNAPSHOT_IN_GROUP,
};

use super::world::World;
use crate::model::Text;
use crate::plan::group::members::Names;
use crate::plan::request::{Object, Write};
use crate::testing::server::{Kind, finalizers};

/// Whether a deletion has begun.
fn goes(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn uid(content: &Value) -> String {
    let uid = &content["spec"]["volumeGroupSnapshotRef"]["uid"];
    uid.as_str().unwrap_or_default().to_owned()
}

impl World {
    /// The sidecar makes one step on some group's content. Says whether there was one to make.
    pub(super) fn group_sidecar_works(&mut self) -> bool {
        let all = self.server.all(Kind::GroupContent);
        let names: Vec<Text> = all.map(|(name, _)| name.clone()).collect();
        names.into_iter().any(|name| self.group_sidecar_step(&name))
    }

    fn group_sidecar_step(&mut self, name: &Text) -> bool {
        let content = self.server.get(Kind::GroupContent, name).unwrap().clone();
        let annotations = &content["metadata"]["annotations"];
        let creating = annotations[GROUP_BEING_CREATED].is_string();
        if goes(&content) && annotations[GROUP_BEING_DELETED].is_string() && !creating {
            return self.group_sidecar_deletes(name, &content);
        }
        if content["status"]["readyToUse"] == true {
            return false;
        }
        if !creating {
            self.group_mark(name, Some("yes"));
            return true;
        }
        self.sidecar.storage.insert(uid(&content));
        let handles = content["spec"]["source"]["volumeHandles"]
            .as_array()
            .unwrap();
        let ready = self.settling || self.dice.one_in(2);
        let members: Vec<Value> = handles
            .iter()
            .map(|handle| {
                json!({
                    "volumeHandle": handle, "snapshotHandle": format!("snap of {handle}"),
                    "creationTime": 1_767_323_045_000_000_000_i64, "readyToUse": ready,
                })
            })
            .collect();
        let status = json!({
            "volumeGroupSnapshotHandle": format!("grp-{}", uid(&content)), "readyToUse": ready,
            "creationTime": "2026-01-02T03:04:05Z", "volumeSnapshotInfoList": members,
        });
        self.server.edit(Kind::GroupContent, name, |content| {
            let before = content["status"]["volumeSnapshotInfoList"].take();
            content["status"] = status;
            if before.is_array() {
                content["status"]["volumeSnapshotInfoList"] = before;
            }
        });
        self.group_mark(name, None);
        true
    }

    fn group_sidecar_deletes(&mut self, name: &Text, content: &Value) -> bool {
        let delete = content["spec"]["deletionPolicy"] == "Delete";
        if delete && content["status"]["volumeGroupSnapshotHandle"].is_string() {
            self.sidecar.storage.remove(&uid(content));
            self.server.edit(Kind::GroupContent, name, |content| {
                let members = content["status"]["volumeSnapshotInfoList"].take();
                content["status"] = json!({"volumeSnapshotInfoList": members});
            });
            return true;
        }
        if !delete {
            self.sidecar.kept.insert(uid(content));
        }
        let mut left = finalizers(content);
        let held = left.len();
        left.retain(|one| one != GROUP_CONTENT_BOUND);
        let changed = left.len() < held;
        if changed {
            self.server.edit(Kind::GroupContent, name, |content| {
                content["metadata"]["finalizers"] = left.into();
            });
        }
        changed
    }

    fn group_mark(&mut self, name: &Text, mark: Option<&str>) {
        self.server.edit(Kind::GroupContent, name, |content| {
            let annotations = &mut content["metadata"]["annotations"];
            if annotations.is_null() {
                *annotations = json!({});
            }
            let annotations = annotations.as_object_mut().unwrap();
            match mark {
                Some(mark) => annotations.insert(GROUP_BEING_CREATED.to_owned(), mark.into()),
                None => annotations.remove(GROUP_BEING_CREATED),
            };
        });
    }

    /// The VolumeGroupSnapshot with this UID.
    fn group(&self, uid: &Value) -> Option<&Value> {
        let mut all = self.server.all(Kind::Group);
        all.find_map(|(_, group)| (group["metadata"]["uid"] == *uid).then_some(group))
    }

    /// Somebody cuts a member that can be used loose, as backup tools do to keep it when its group goes.
    pub(super) fn someone_cuts_loose(&mut self) {
        let usable = |one: &Value| {
            let owned = one["metadata"]["ownerReferences"][0]["uid"].is_string();
            owned && !goes(one) && one["status"]["readyToUse"] == true
        };
        let all = self.server.all(Kind::Snapshot);
        let all = all
            .filter(|(_, one)| usable(one))
            .map(|(key, _)| key.clone());
        let members: Vec<Text> = all.collect();
        if members.is_empty() {
            return;
        }
        let key = self.dice.of(&members).clone();
        let all = self.dice.one_in(2);
        let member = self.server.get(Kind::Snapshot, &key).unwrap();
        let uid = member["metadata"]["uid"].as_str().unwrap().to_owned();
        if all {
            // Nothing holds it before the controller has seen that: who deletes it now leaves its content.
            self.stripped.insert(uid.clone());
        }
        self.loose.insert(uid);
        self.server.edit(Kind::Snapshot, &key, |member| {
            member["metadata"]["ownerReferences"] = Value::Null;
            let mut left = finalizers(member);
            left.retain(|one| !all && one != SNAPSHOT_IN_GROUP);
            member["metadata"]["finalizers"] = left.into();
        });
    }

    /// Whether a patch gives a VolumeSnapshot that was cut loose an owner again.
    pub(super) fn adopts(&self, before: &Value, patch: &Value) -> Option<String> {
        let uid = before["metadata"]["uid"].as_str()?;
        let owned = !patch["metadata"]["ownerReferences"].is_null();
        (owned && self.loose.contains(uid))
            .then(|| format!("{uid} was cut loose and is owned again"))
    }

    /// What must be true of a request about a group or a member, if it is applied.
    pub(super) fn hold_group(&self, write: &Write, before: Option<&Value>) -> Option<String> {
        match (&write.object, &write.body, before) {
            (Object::GroupContent(_), Body::Create(body), None) => self.may_not_group(body),
            (Object::GroupContent(name), Body::Delete(version), Some(before)) => {
                if !is(before, version.as_ref()) {
                    return None;
                }
                if before["spec"]["deletionPolicy"] == "Retain" {
                    return Some(format!("{name} is deleted, and was to be kept"));
                }
                let group = self.group(&before["spec"]["volumeGroupSnapshotRef"]["uid"]);
                let lives = group.is_none_or(|group| !goes(group));
                lives.then(|| format!("{name} is deleted without its VolumeGroupSnapshot"))
            }
            (Object::Snapshot(key), Body::Delete(version), Some(before)) => {
                let owner = &before["metadata"]["ownerReferences"][0]["uid"];
                let lives = self.group(owner).is_none_or(|group| !goes(group));
                (is(before, version.as_ref()) && lives)
                    .then(|| format!("{key} is deleted without its group"))
            }
            (Object::Content(name), Body::Patch(Part::Status, patch), Some(before)) => {
                let version = &patch.body()["metadata"]["resourceVersion"];
                let same = *version == before["metadata"]["resourceVersion"];
                let taken = before["status"]["snapshotHandle"].is_string();
                (same && taken).then(|| format!("{name} is reset to what its group said first"))
            }
            (Object::Group(_), Body::Patch(Part::Main, patch), Some(before)) => {
                self.group_goes(before, patch.body())
            }
            _ => None,
        }
    }

    fn may_not_group(&self, body: &Value) -> Option<String> {
        let uid = &body["spec"]["volumeGroupSnapshotRef"]["uid"];
        // What is posted for one that is gone is not held by anything: it must not come so far.
        let group = self.group(uid)?;
        if !group["status"]["creationTime"].is_null() {
            return Some(format!("{uid} is made again although it was taken"));
        }
        let held = finalizers(group);
        let held = held.iter().any(|one| one == GROUP_SNAPSHOT_BOUND);
        (!held).then(|| format!("{uid} is made for a group that is not protected"))
    }

    fn group_goes(&self, before: &Value, patch: &Value) -> Option<String> {
        let version = &patch["metadata"]["resourceVersion"];
        let fields = patch["metadata"].as_object()?;
        let freed = fields.contains_key("finalizers")
            && !finalizers(patch)
                .iter()
                .any(|one| one == GROUP_SNAPSHOT_BOUND);
        if !freed || *version != before["metadata"]["resourceVersion"] {
            return None;
        }
        let mut contents = self.server.all(Kind::GroupContent);
        let waits = contents.find(|(_, content)| {
            content["spec"]["volumeGroupSnapshotRef"]["uid"] == before["metadata"]["uid"]
                && content["spec"]["deletionPolicy"] == "Delete"
                && !goes(content)
        });
        waits.map(|(name, _)| format!("{} goes before {name}", before["metadata"]["name"]))
    }

    /// Whether a VolumeSnapshot is a member of a group that lives, which holds it.
    pub(super) fn is_held_by_group(&self, snapshot: &Value) -> bool {
        let owner = &snapshot["metadata"]["ownerReferences"][0]["uid"];
        let named = snapshot["status"]["volumeGroupSnapshotName"].as_str();
        let of = match named {
            // Its snapshot is part of the group's although it was cut loose.
            Some(name) if owner.is_null() => self.server.get(Kind::Group, &format!("ns/{name}")),
            _ => self.group(owner),
        };
        of.is_some_and(|group| !goes(group))
    }

    /// What is true of groups when all is at rest.
    pub(super) fn check_groups(&self) -> Result<(), String> {
        for (key, group) in self.server.all(Kind::Group) {
            if goes(group) {
                let contents: Vec<&Value> = { self.server.all(Kind::GroupContent) }
                    .map(|(_, one)| one)
                    .collect();
                return Err(format!("{key} stays Terminating: {group} {contents:?}"));
            }
            if self.claims_go() {
                continue;
            }
            if group["status"]["readyToUse"] != true {
                return Err(format!("{key} is never ready: {group}"));
            }
            let uid = group["metadata"]["uid"].as_str().unwrap();
            for handle in ["vol-1", "vol-2"] {
                let names = Names::new(uid, handle);
                let member = self
                    .server
                    .get(Kind::Snapshot, &format!("ns/{}", names.snapshot));
                let Some(member) = member else { continue };
                let uid = member["metadata"]["uid"].as_str().unwrap();
                let ready = member["status"]["readyToUse"] == true;
                if !ready && !goes(member) && !self.robbed.contains(uid) {
                    return Err(format!("{uid} is never ready: {member}"));
                }
            }
        }
        Ok(())
    }

    /// Whether a claim is being deleted, and waits for who uses it.
    fn claims_go(&self) -> bool {
        self.server.all(Kind::Claim).any(|(_, claim)| goes(claim))
    }

    /// What is true of groups when all were deleted.
    pub(super) fn check_end_of_groups(&self) -> Result<(), String> {
        if let Some((key, _)) = self.server.all(Kind::Group).next() {
            return Err(format!("{key} stays Terminating"));
        }
        for (name, content) in self.server.all(Kind::GroupContent) {
            if goes(content) {
                return Err(format!("{name} stays Terminating"));
            }
            if content["spec"]["deletionPolicy"] == "Delete" {
                return Err(format!("{name} is left behind"));
            }
        }
        Ok(())
    }

    /// Whether a group's content has this UID in its reference.
    pub(super) fn is_grouped(&self, of: &str) -> bool {
        let mut all = self.server.all(Kind::GroupContent);
        all.any(|(_, content)| uid(content) == of)
    }
}

/// Whether a DELETE of what is at this version, if that is said, is applied.
pub(super) fn is(before: &Value, version: Option<&Text>) -> bool {
    version.is_none_or(|version| before["metadata"]["resourceVersion"] == **version)
}
