//! The checks of groups, in addition to those of all snapshots.

use csi_proto::csi::{CreateVolumeGroupSnapshotRequest, DeleteVolumeGroupSnapshotRequest};
use serde_json::Value;
use sidecar::snapshot::{GROUP_CONTENT_BOUND, GROUP_HANDLE, GROUP_SNAPSHOT_BOUND};
use sidecar::text::Text;
use snapshot_controller::plan::group::members::Names;
use snapshotter::model::Policy;

use super::check::{holds, is_deleting, uid_of};
use super::effect::{is_marked, is_told, new_handle};
use super::kind::Kind;
use super::world::{Faults, World};

/// The UID of the VolumeSnapshot's group.
pub(super) fn owner_of(snapshot: &Value) -> Option<&str> {
    snapshot["metadata"]["ownerReferences"][0]["uid"].as_str()
}

/// Whether a content was made for a member; on a content of an existing snapshot the annotation is a copy.
pub(super) fn is_member(content: &Value) -> bool {
    let annotated = content["metadata"]["annotations"][GROUP_HANDLE].is_string();
    annotated && content["spec"]["source"]["volumeHandle"].is_string()
}

/// The volume and snapshot handles of a group's members.
pub(super) fn members_of(content: &Value) -> Vec<(&str, &str)> {
    let list = content["status"]["volumeSnapshotInfoList"].as_array();
    let list = list.into_iter().flatten();
    list.filter_map(|member| {
        let volume = member["volumeHandle"].as_str()?;
        Some((volume, member["snapshotHandle"].as_str()?))
    })
    .collect()
}

impl World {
    /// The VolumeGroupSnapshot with this UID.
    pub(super) fn group_object(&self, uid: &str) -> Option<&Value> {
        let mut all = self.server.all(Kind::Group);
        all.find_map(|(_, group)| (group["metadata"]["uid"] == uid).then_some(group))
    }

    /// The VolumeSnapshot or VolumeGroupSnapshot of a content, if it exists.
    pub(super) fn owner(&self, content: &Value) -> Option<&Value> {
        let uid = uid_of(content);
        self.snapshot(uid).or_else(|| self.group_object(uid))
    }

    /// Whether the VolumeSnapshot's group exists and is not being deleted.
    pub(super) fn is_held_by_group(&self, snapshot: &Value) -> bool {
        let owner = owner_of(snapshot).and_then(|uid| self.group_object(uid));
        let name = snapshot["status"]["volumeGroupSnapshotName"].as_str();
        let named = name.and_then(|name| self.server.get(Kind::Group, &format!("ns/{name}")));
        owner.or(named).is_some_and(|group| !is_deleting(group))
    }

    /// Checks a call of CreateVolumeGroupSnapshot.
    pub(super) fn hold_group_create(
        &mut self,
        name: &Text,
        call: &CreateVolumeGroupSnapshotRequest,
    ) {
        let volumes = call.source_volume_ids.iter();
        let volumes = volumes.map(|volume| volume.as_str().into()).collect();
        self.groups.want(&call.name, volumes);
        let Some(content) = self.server.get(Kind::GroupContent, name) else {
            return self.complain(format!("a group for {name}, which is gone"));
        };
        let handle = content["status"]["volumeGroupSnapshotHandle"].is_string();
        let wished = content["spec"]["source"]["volumeHandles"].as_array();
        let same = wished.is_some_and(|wished| {
            let called = call.source_volume_ids.iter().map(|one| one.as_str());
            wished.iter().map(Value::as_str).eq(called.map(Some))
        });
        let wrong = if !handle && !is_marked(content) {
            Some("not marked before the call")
        } else if call.name != format!("groupsnapshot-{}", uid_of(content)) {
            Some("another name")
        } else if !holds(content, GROUP_CONTENT_BOUND) && !is_deleting(content) {
            Some("not protected before the call")
        } else if !same {
            Some("of other volumes")
        } else {
            None
        };
        let wrong = wrong.map(|wrong| format!("{wrong}: {content}"));
        self.complain_if(wrong);
    }

    /// Checks a call of DeleteVolumeGroupSnapshot.
    pub(super) fn hold_group_delete(
        &mut self,
        name: &Text,
        call: &DeleteVolumeGroupSnapshotRequest,
    ) {
        let group = Text::from(call.group_snapshot_id.as_str());
        let named = |handle: &&Text| call.snapshot_ids.iter().any(|named| **named == ***handle);
        let all = self.groups.all.get(&group);
        if !all.into_iter().flatten().all(|handle| named(&handle)) {
            self.complain(format!("{group} is deleted without its members: {call:?}"));
        }
        let known = self.snapshotter.grouped.known.contents.store.get(name);
        let Some(known) = known.cloned() else { return };
        if known.policy == Policy::Retain {
            self.complain(format!("{group} is deleted, and retained"));
        }
        let Some(content) = self.server.get(Kind::GroupContent, name) else {
            return;
        };
        let content = &content.clone();
        self.hold_own(&known, content, &group);
        let found = content["spec"]["source"]["groupSnapshotHandles"].is_object();
        let unbound = found && (uid_of(content).is_empty() || known.snapshot.uid.is_empty());
        let wrong = if !is_deleting(content) || !(is_told(content) || unbound) {
            Some("a deletion that nobody asked for")
        } else if is_marked(content) && !found {
            Some("a deletion while a call is in doubt")
        } else {
            None
        };
        let wrong = wrong.map(|wrong| format!("{wrong}: {content}"));
        self.complain_if(wrong);
    }

    /// Checks a call of DeleteSnapshot: the snapshot must not be known as a group's.
    pub(super) fn hold_alone(&mut self, content: &Value, handle: &str) {
        let known = is_member(content) || !content["status"]["volumeGroupSnapshotHandle"].is_null();
        if known || self.groups.members.contains_key(handle) && is_member(content) {
            self.complain(format!("{handle} is deleted alone: {content}"));
        }
    }

    /// Checks the creation of an object for a group or a member.
    pub(super) fn may_not_group(&mut self, kind: Kind, body: &Value) -> Option<String> {
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        if kind != Kind::Snapshot && !self.seen.robbed.contains(name) {
            let made = self.seen.made.entry(name.into()).or_default();
            *made += 1;
            if *made > 1 {
                return Some(format!("{name} is made more than once"));
            }
        }
        if kind != Kind::GroupContent {
            return None;
        }
        let uid = uid_of(body);
        // A POST for a deleted group must not arrive.
        let group = self.group_object(uid)?;
        if !group["status"]["creationTime"].is_null() {
            return Some(format!("{uid} is made again although it was taken"));
        }
        (!holds(group, GROUP_SNAPSHOT_BOUND))
            .then(|| format!("{uid} is made of a group that is not protected"))
    }

    /// Checks a deletion by the controller of an object that belongs to a group.
    pub(super) fn may_not_ungroup(&self, kind: Kind, before: &Value) -> Option<String> {
        let name = &before["metadata"]["name"];
        if kind == Kind::Snapshot {
            let group = owner_of(before).and_then(|uid| self.group_object(uid));
            return group
                .is_none_or(|group| !is_deleting(group))
                .then(|| format!("{name} is deleted without its group"));
        }
        if kind == Kind::Content {
            // A content that is bound to no VolumeSnapshot.
            let handle = &before["metadata"]["annotations"][GROUP_HANDLE];
            let mut groups = self.server.all(Kind::GroupContent);
            let of = groups.find(|(_, group)| {
                group["status"]["volumeGroupSnapshotHandle"] == *handle
                    && group["spec"]["volumeGroupSnapshotRef"]["uid"].is_string()
            });
            let lives = of.is_some_and(|(_, content)| {
                let group = self.group_object(uid_of(content));
                group.is_some_and(|group| !is_deleting(group))
            });
            return lives.then(|| format!("{name} is deleted, and its group lives"));
        }
        if before["spec"]["deletionPolicy"] == "Retain" {
            return Some(format!("{name} is deleted, and was to be kept"));
        }
        match self.group_object(uid_of(before)) {
            Some(group) if is_deleting(group) => None,
            Some(_) => Some(format!(
                "{name} is deleted, and its VolumeGroupSnapshot lives"
            )),
            None => Some(format!("{name} is deleted without its VolumeGroupSnapshot")),
        }
    }

    /// Reports a member's bound content that goes while its group exists.
    pub(super) fn goes_alone(&self, content: &Value) -> Option<String> {
        let snapshot = self.snapshot(uid_of(content))?;
        let held = is_member(content) && self.is_held_by_group(snapshot);
        held.then(|| format!("{} goes, and its group lives", content["metadata"]["name"]))
    }

    /// Checks a patch about a group or a member.
    pub(super) fn may_not_change_group(
        &self,
        kind: Kind,
        before: &Value,
        patch: &Value,
    ) -> Option<String> {
        let name = &before["metadata"]["name"];
        let reset =
            patch["status"]["readyToUse"] == false && before["status"]["readyToUse"] == true;
        let error = patch["status"]["error"].is_object();
        let grouped = is_member(before) || owner_of(before).is_some() || kind == Kind::GroupContent;
        if reset && grouped && !error {
            return Some(format!("{name} is reset: {patch}"));
        }
        match kind {
            Kind::Group => self.group_goes(before, patch),
            Kind::Content if is_member(before) => self.wrong_member(before, patch),
            Kind::GroupContent => self.wrong_list(before, patch),
            Kind::Snapshot
            | Kind::Content
            | Kind::Class
            | Kind::Claim
            | Kind::Volume
            | Kind::Secret
            | Kind::GroupClass => None,
        }
    }

    fn group_goes(&self, before: &Value, patch: &Value) -> Option<String> {
        let fields = patch["metadata"].as_object()?;
        let freed = fields.contains_key("finalizers") && !holds(patch, GROUP_SNAPSHOT_BOUND);
        if !freed || !holds(before, GROUP_SNAPSHOT_BOUND) {
            return None;
        }
        let uid = before["metadata"]["uid"].as_str()?;
        // The garbage collector would delete them, too, but only after the group.
        let lives = |one: &Value| owner_of(one) == Some(uid) && !is_deleting(one);
        let made = |one: &Value| one["spec"]["source"]["persistentVolumeClaimName"].is_string();
        let mut members = self.server.all(Kind::Snapshot);
        if self.faults == Faults::None && members.any(|(_, one)| lives(one) && made(one)) {
            return Some(format!(
                "{} goes and leaves a member",
                before["metadata"]["name"]
            ));
        }
        let waits = { self.server.all(Kind::GroupContent) }.find(|(name, content)| {
            uid_of(content) == uid
                && !self.seen.reconsidered.contains(*name)
                && content["spec"]["deletionPolicy"] == "Delete"
                && !is_deleting(content)
        });
        waits.map(|(name, _)| format!("{} goes before {name}", before["metadata"]["name"]))
    }

    /// Reports a member's content with another VolumeSnapshot, or without the snapshot of its volume in its group.
    fn wrong_member(&self, before: &Value, patch: &Value) -> Option<String> {
        let name = before["metadata"]["name"].as_str()?;
        let volume = before["spec"]["source"]["volumeHandle"].as_str()?;
        if let Some(uid) = patch["spec"]["volumeSnapshotRef"]["uid"].as_str()
            && let Some(snapshot) = self.snapshot(uid)
        {
            let names = Names::new(owner_of(snapshot).unwrap_or_default(), volume);
            let called = &snapshot["metadata"]["name"];
            if *names.content != *name || *called != *names.snapshot {
                return Some(format!(
                    "{name} is bound to a wrong VolumeSnapshot: {snapshot}"
                ));
            }
        }
        let handle = new_handle(before, patch)?.as_str()?;
        if before["status"]["snapshotHandle"].is_string() {
            return Some(format!("{name} is reset to what its group said first"));
        }
        let group = &before["metadata"]["annotations"][GROUP_HANDLE];
        let member = self.groups.members.get(handle)?;
        let same = *group == *member.group && *member.volume == *volume;
        (!same).then(|| format!("{name} gets another's snapshot, {handle}: {member:?}"))
    }

    /// Reports members that are not recorded with the group's handle, or that changed.
    fn wrong_list(&self, before: &Value, patch: &Value) -> Option<String> {
        let name = &before["metadata"]["name"];
        let (had, says) = (members_of(before), members_of(patch));
        let told = patch["status"]["volumeSnapshotInfoList"].is_array();
        if !had.is_empty() && told && had != says {
            return Some(format!("{name} has other members than {had:?}: {says:?}"));
        }
        let handle = new_handle(before, patch)?.as_str()?;
        let taken = before["spec"]["source"]["volumeHandles"].is_array();
        let all = self.groups.all.get(handle)?;
        let listed = |handle: &Text| says.iter().any(|(_, one)| **one == **handle);
        (taken && !all.iter().all(listed))
            .then(|| format!("{name} is without its members: {patch}"))
    }

    /// Reports a ready group that does not exist completely, or whose members are not ready.
    pub(super) fn wrong_promise_of_group(&self) -> Option<String> {
        self.server
            .all(Kind::GroupContent)
            .find_map(|(name, content)| {
                let handle = content["status"]["volumeGroupSnapshotHandle"].as_str()?;
                let whole = self.storage.snapshots.get(handle);
                let mut members = self.groups.members.values();
                let early = whole.is_some_and(|whole| whole.unready > 0)
                    || members.any(|member| *member.group == *handle && member.unready > 0);
                let ready = content["status"]["readyToUse"] == true;
                (early && ready && !is_deleting(content))
                    .then(|| format!("{name} is called ready too early: {content}"))
            })
    }

    /// Checks groups at rest.
    pub(super) fn check_groups(&self) -> Result<(), String> {
        let going = { self.server.all(Kind::Claim) }.any(|(_, claim)| is_deleting(claim));
        for (key, group) in self.server.all(Kind::Group) {
            if is_deleting(group) {
                return Err(format!("{key} stays Terminating: {group}"));
            }
            let uid = group["metadata"]["uid"].as_str().unwrap();
            if group["status"]["readyToUse"] == true || self.seen.robbed.contains(uid) {
                continue;
            }
            let found = group["spec"]["source"]["volumeGroupSnapshotContentName"].as_str();
            let found = found.map(|name| {
                let content = self.server.get(Kind::GroupContent, name);
                content.is_some_and(|content| uid_of(content) == uid)
            });
            // No group is begun with a claim that is being deleted.
            if found.unwrap_or(!going) {
                return Err(format!("{key} is never ready: {group}"));
            }
        }
        self.check_members()
    }

    /// Checks that each snapshot of an existing group has its VolumeSnapshot.
    fn check_members(&self) -> Result<(), String> {
        for (name, content) in self.server.all(Kind::GroupContent) {
            let uid = uid_of(content);
            let lives = self
                .group_object(uid)
                .is_some_and(|group| !is_deleting(group) && group["status"]["readyToUse"] == true);
            if !lives || is_deleting(content) {
                continue;
            }
            for (volume, _) in members_of(content) {
                let names = Names::new(uid, volume);
                let key = format!("ns/{}", names.snapshot);
                let Some(member) = self.server.get(Kind::Snapshot, &key) else {
                    let of = self.server.get(Kind::Content, &names.content);
                    if of.is_some_and(|of| self.seen.stripped.contains(uid_of(of))) {
                        continue;
                    }
                    return Err(format!("{name} has no VolumeSnapshot of {volume}"));
                };
                let robbed = self.seen.robbed.contains(&*names.content);
                let ready = member["status"]["readyToUse"] == true;
                if !ready && !is_deleting(member) && !robbed {
                    return Err(format!("a member is never ready: {member}"));
                }
            }
        }
        Ok(())
    }

    /// Checks groups after all objects were deleted.
    pub(super) fn check_end_of_groups(&self) -> Result<(), String> {
        if let Some((key, group)) = self.server.all(Kind::Group).next() {
            return Err(format!("{key} stays Terminating: {group}"));
        }
        for (name, content) in self.server.all(Kind::GroupContent) {
            if is_deleting(content) {
                return Err(format!("{name} stays Terminating: {content}"));
            }
            let kept = content["spec"]["deletionPolicy"] == "Retain";
            let reconsidered = self.seen.reconsidered.contains(name);
            if !kept && !reconsidered && !uid_of(content).is_empty() {
                return Err(format!("{name} is left behind: {content}"));
            }
        }
        Ok(())
    }
}
