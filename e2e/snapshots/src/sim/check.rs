//! What is held at each step.

use csi_proto::csi::{CreateSnapshotRequest, DeleteSnapshotRequest};
use serde_json::Value;
use sidecar::controller::request::Body;
use sidecar::snapshot::{
    BEING_CREATED, BEING_DELETED, CLAIM_AS_SOURCE, CONTENT_BOUND, GROUP_CONTENT_BOUND,
};
use sidecar::text::Text;
use sidecar_testkit::sim::server::finalizers;
use sidecar_testkit::sim::storage::{Wish, plain};
use snapshotter::model::Policy;

use super::effect::{handle, is_marked, is_of_group, is_told, new_handle};
use super::groups::{is_member, owner_of};
use super::kind::Kind;
use super::request::{Request, Write};
use super::world::World;

pub(super) fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

pub(super) fn holds(object: &Value, finalizer: &str) -> bool {
    finalizers(object).iter().any(|held| held == finalizer)
}

pub(super) fn has(content: &Value, annotation: &str) -> bool {
    !content["metadata"]["annotations"][annotation].is_null()
}

pub(super) fn uid_of(content: &Value) -> &str {
    let spec = &content["spec"];
    let uid = spec["volumeSnapshotRef"]["uid"].as_str();
    let of_group = || spec["volumeGroupSnapshotRef"]["uid"].as_str();
    uid.or_else(of_group).unwrap_or_default()
}

/// Kinds of contents.
const CONTENTS: [Kind; 2] = [Kind::Content, Kind::GroupContent];

/// Whether a content was made for a member, and nobody is bound to it.
fn is_half(content: &Value) -> bool {
    is_member(content) && uid_of(content).is_empty()
}

/// Handles that a content names: the one on record, and the wished one.
fn handles(content: &Value) -> impl Iterator<Item = &str> {
    let on_record = handle(content).as_str();
    let source = &content["spec"]["source"];
    let wished = source["snapshotHandle"].as_str();
    let group = source["groupSnapshotHandles"]["volumeGroupSnapshotHandle"].as_str();
    on_record.into_iter().chain(wished).chain(group)
}

impl World {
    /// After each tick.
    pub(super) fn check(&mut self) {
        self.check_storage();
        let wrong = self.wrong_promise();
        if let Some(wrong) = wrong.or_else(|| self.wrong_promise_of_group()) {
            self.complain(wrong);
        }
    }

    /// Takes note of what has happened to contents.
    pub(super) fn look(&mut self) {
        let events = self.server.log.get(self.seen.cursor..).unwrap_or_default();
        let contents = events.iter().filter(|event| CONTENTS.contains(&event.kind));
        let changed: Vec<_> = contents
            .map(|event| (event.kind, event.key.clone(), event.json.is_some()))
            .collect();
        self.seen.cursor = self.server.log.len();
        for (kind, name, there) in changed {
            if let Some(content) = self.server.get(kind, &name).filter(|_| there) {
                if content["spec"]["deletionPolicy"] == "Delete" {
                    self.seen.deletable.insert(name.clone());
                }
                self.seen.contents.insert(name, content.clone());
            } else if let Some(last) = self.seen.contents.get(&name).cloned() {
                self.went(&last);
            }
        }
    }

    /// A content is gone: what outlives it, and whose VolumeSnapshot was robbed.
    fn went(&mut self, last: &Value) {
        let uid = uid_of(last);
        let retained = last["spec"]["deletionPolicy"] == "Retain";
        // Nothing held it: whoever deleted it keeps the snapshot.
        let held = holds(last, CONTENT_BOUND) || holds(last, GROUP_CONTENT_BOUND);
        let bare = self.seen.by_hand && !held;
        if retained || bare || uid.is_empty() {
            let all = handles(last).map(plain).map(Text::from);
            let name = if is_of_group(last) {
                format!("groupsnapshot-{uid}")
            } else {
                format!("snapshot-{uid}")
            };
            let all = all.chain([name.into()]);
            self.seen.kept.extend(all);
        }
        if bare {
            self.seen.robbed.insert(uid.into());
            let name = last["metadata"]["name"].as_str().unwrap_or_default();
            self.seen.robbed.insert(name.into());
        }
    }

    /// Nothing is in storage, or may come to be there, that nobody would delete.
    pub(super) fn check_storage(&mut self) {
        if let Some(wrong) = self.stray() {
            self.complain(wrong);
        }
    }

    fn stray(&self) -> Option<String> {
        let forgotten = |name: &str| self.seen.forgotten.contains(name);
        let mut made = self.storage.made.iter();
        let twice = made.find(|(name, count)| **count > 1 && !forgotten(name));
        if let Some((name, _)) = twice {
            return Some(format!("two snapshots of {name}"));
        }
        let marked = |name: &str| {
            let uid = name.trim_start_matches("group");
            let uid = uid.strip_prefix("snapshot-").unwrap_or_default();
            let mut all = self.contents();
            all.any(|content| uid_of(content) == uid && is_marked(content))
        };
        for (handle, snapshot) in &self.storage.snapshots {
            let kept = &self.seen.kept;
            let known = kept.contains(handle) || kept.contains(&*snapshot.name);
            if known || forgotten(&snapshot.name) {
                continue;
            }
            let mut all = self.contents();
            let named = all.any(|content| handles(content).any(|one| *plain(one) == **handle));
            let taken = !snapshot.name.is_empty() && marked(&snapshot.name);
            if !named && !taken {
                return Some(format!("{handle}, {}, is nobody's", snapshot.name));
            }
        }
        self.storage.running.iter().find_map(|call| {
            let Wish::Create(name) = &call.wish else {
                return None;
            };
            let known = marked(name) || self.seen.kept.contains(&**name) || forgotten(name);
            let wild = call.found.is_none() && !known;
            wild.then(|| format!("{name} is nobody's, and may come to be"))
        })
    }

    fn contents(&self) -> impl Iterator<Item = &Value> {
        let all = CONTENTS.into_iter();
        all.flat_map(|kind| self.server.all(kind).map(|(_, content)| content))
    }

    /// A VolumeSnapshot that can be used has a snapshot that can be.
    fn wrong_promise(&self) -> Option<String> {
        self.server.all(Kind::Snapshot).find_map(|(key, snapshot)| {
            let uid = snapshot["metadata"]["uid"].as_str().unwrap();
            let ready = snapshot["status"]["readyToUse"] == true;
            let goes = owner_of(snapshot).is_some() && !self.is_held_by_group(snapshot);
            if !ready || goes || is_deleting(snapshot) || self.seen.robbed.contains(uid) {
                return None;
            }
            let bound = snapshot["status"]["boundVolumeSnapshotContentName"].as_str();
            let Some(content) = bound.and_then(|name| self.server.get(Kind::Content, name)) else {
                return Some(format!("{key} can be used, and has no content: {snapshot}"));
            };
            let handle = content["status"]["snapshotHandle"].as_str();
            if let Some(member) = handle.and_then(|handle| self.groups.members.get(handle)) {
                let early = content["status"]["readyToUse"] != true || member.unready > 0;
                return early.then(|| format!("member {key} cannot be used: {content}"));
            }
            let lost = &content["status"]["volumeGroupSnapshotHandle"];
            if lost
                .as_str()
                .is_some_and(|group| !self.storage.snapshots.contains_key(group))
                && owner_of(snapshot).is_none()
            {
                // An administrator's, which the group did not know yet.
                return None;
            }
            let found = handle.and_then(|handle| self.storage.get(handle));
            match found {
                None => Some(format!(
                    "{key} can be used, and its snapshot is not there: {content}"
                )),
                Some(_) if content["status"]["readyToUse"] != true => {
                    Some(format!("{key} can be used too early: {content}"))
                }
                Some(found) if found.unready > 0 && !found.name.is_empty() => {
                    Some(format!("{key} cannot be used: {content}"))
                }
                Some(_) => None,
            }
        })
    }

    /// The driver is to be asked for a snapshot.
    pub(super) fn hold_create(&mut self, name: &Text, call: &CreateSnapshotRequest) {
        *self.seen.calls.entry(name.clone()).or_default() += 1;
        let Some(content) = self.server.get(Kind::Content, name) else {
            return self.complain(format!("a snapshot for {name}, which is gone"));
        };
        let handle = content["status"]["snapshotHandle"].is_string();
        let wrong = if is_member(content) {
            Some("for a member")
        } else if !handle && !has(content, BEING_CREATED) {
            Some("not marked before the call")
        } else if call.name != format!("snapshot-{}", uid_of(content)) {
            Some("another name")
        } else if !holds(content, CONTENT_BOUND) && !is_deleting(content) {
            Some("not protected before the call")
        } else {
            None
        };
        if let Some(wrong) = wrong {
            let wrong = format!("{wrong}: {content}");
            self.complain(wrong);
        }
    }

    /// The driver is to be asked to delete.
    pub(super) fn hold_delete(&mut self, name: &Text, call: &DeleteSnapshotRequest) {
        let known = self.snapshotter.single.known.contents.store.get(name);
        let known = known.cloned();
        let Some(known) = known else { return };
        if known.policy == Policy::Retain {
            self.complain(format!("{} is deleted, and retained", call.snapshot_id));
        }
        let Some(content) = self.server.get(Kind::Content, name) else {
            return;
        };
        let found = content["spec"]["source"]["snapshotHandle"].is_string();
        let content = &content.clone();
        self.hold_alone(content, &call.snapshot_id);
        let unbound = found && uid_of(content).is_empty();
        let unbound = unbound || found && known.snapshot.uid.is_empty();
        let wrong = if !is_deleting(content) || !(has(content, BEING_DELETED) || unbound) {
            Some("a deletion that nobody asked for")
        } else if has(content, BEING_CREATED) && !found {
            Some("a deletion while a call is in doubt")
        } else {
            None
        };
        if let Some(wrong) = wrong {
            let wrong = format!("{wrong}: {content}");
            self.complain(wrong);
        }
    }

    /// A snapshot is gone.
    pub(super) fn hold_deleted(&mut self, handle: &Text) {
        let mut all = self.seen.contents.iter();
        let of = all.find(|(_, content)| handles(content).any(|one| *plain(one) == **handle));
        if let Some((name, _)) = of.filter(|(name, _)| !self.seen.deletable.contains(*name)) {
            let wrong = format!("the snapshot of {name} is deleted, and was always retained");
            self.complain(wrong);
        }
    }

    /// What must be true of a change of the API, now that it is made.
    pub(super) fn hold_applied(&mut self, request: &Request, before: Option<&Value>) {
        let Request::Write(Write {
            kind, key, body, ..
        }) = request
        else {
            return;
        };
        let kind = *kind;
        let wrong = match (body, before) {
            (Body::Create(body), _) if kind != Kind::Content || is_member(body) => {
                self.may_not_group(kind, body)
            }
            (Body::Create(body), _) => {
                let made = self.seen.made.entry(uid_of(body).into()).or_default();
                *made += 1;
                if *made > 1 {
                    Some(format!("{} has more than one content", uid_of(body)))
                } else {
                    self.may_not_create(body)
                }
            }
            (_, None) => None,
            (Body::Delete(_), Some(before)) if kind != Kind::Content || is_half(before) => {
                self.may_not_ungroup(kind, before)
            }
            (Body::Delete(_), Some(before)) => self.may_not_delete(before),
            (Body::Replace(json), Some(before)) => {
                let after: Value = serde_json::from_str(json).unwrap();
                self.may_not_free(key, before, &after)
            }
            (Body::Edit(edit), Some(before)) => {
                let mut after = before.clone();
                edit.apply(None, &mut after);
                self.may_not_free(key, before, &after)
            }
            (Body::Patch(_, patch), Some(before)) => {
                self.may_not_change(kind, before, patch.body())
            }
        };
        if let Some(wrong) = wrong {
            self.complain(wrong);
        }
    }

    fn may_not_create(&self, body: &Value) -> Option<String> {
        let uid = uid_of(body);
        let snapshot = self.snapshot(uid)?;
        if !snapshot["status"]["creationTime"].is_null() {
            return Some(format!("{uid} is made again although it was taken"));
        }
        let claim = snapshot["spec"]["source"]["persistentVolumeClaimName"].as_str()?;
        let claim = self.server.get(Kind::Claim, &format!("ns/{claim}"))?;
        (!holds(claim, CLAIM_AS_SOURCE))
            .then(|| format!("{uid} is made of a claim that is not protected"))
    }

    fn may_not_delete(&self, content: &Value) -> Option<String> {
        let name = &content["metadata"]["name"];
        if content["spec"]["deletionPolicy"] == "Retain" {
            return Some(format!("{name} is deleted, and was to be kept"));
        }
        if let Some(alone) = self.goes_alone(content) {
            return Some(alone);
        }
        match self.snapshot(uid_of(content)) {
            Some(snapshot) if is_deleting(snapshot) => None,
            Some(_) => Some(format!("{name} is deleted, and its VolumeSnapshot lives")),
            None => Some(format!("{name} is deleted without its VolumeSnapshot")),
        }
    }

    fn may_not_free(&self, key: &Text, before: &Value, after: &Value) -> Option<String> {
        let others = finalizers(before).into_iter();
        let mut others = others.filter(|one| one != CLAIM_AS_SOURCE);
        if let Some(lost) = others.find(|one| !holds(after, one)) {
            return Some(format!("{key} loses {lost}"));
        }
        if holds(after, CLAIM_AS_SOURCE) {
            return None;
        }
        let user = self.server.all(Kind::Snapshot).find(|(_, snapshot)| {
            let uid = snapshot["metadata"]["uid"].as_str().unwrap();
            let claim = snapshot["spec"]["source"]["persistentVolumeClaimName"].as_str();
            let mut contents = self.server.all(Kind::Content);
            claim.is_some_and(|claim| **key == format!("ns/{claim}"))
                && snapshot["status"]["readyToUse"] != true
                // Groups protect no claims.
                && owner_of(snapshot).is_none()
                && !is_deleting(snapshot)
                && contents.any(|(_, content)| uid_of(content) == uid)
        });
        user.map(|(user, _)| format!("{key} is let go, and {user} is being taken of it"))
    }

    fn may_not_change(&self, kind: Kind, before: &Value, patch: &Value) -> Option<String> {
        let name = &before["metadata"]["name"];
        let metadata = patch["metadata"].as_object();
        if metadata.is_some_and(|fields| fields.contains_key("finalizers")) {
            let others = finalizers(before).into_iter();
            let mut others = others.filter(|one| one.starts_with("x/"));
            if let Some(lost) = others.find(|one| !holds(patch, one)) {
                return Some(format!("{name} loses {lost}"));
            }
        }
        if let Some(wrong) = self.may_not_change_group(kind, before, patch) {
            return Some(wrong);
        }
        if !CONTENTS.contains(&kind) {
            return None;
        }
        if is_told(patch) {
            let owner = self.owner(before);
            if owner.is_some_and(|owner| !is_deleting(owner)) {
                return Some(format!("{name} is told of a deletion, and its owner lives"));
            }
        }
        let after = new_handle(before, patch)?.as_str();
        let before = handle(before).as_str()?;
        match after {
            Some(after) if after != before => {
                Some(format!("{name} has another handle than {before}: {after}"))
            }
            None if self.storage.get(before).is_some() => {
                Some(format!("{name} is cleared before {before} is deleted"))
            }
            Some(_) | None => None,
        }
    }
}
