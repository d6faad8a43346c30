//! The checks at each step.

use csi_proto::csi::{CreateSnapshotRequest, DeleteSnapshotRequest};
use serde_json::Value;
use sidecar::snapshot::{BEING_CREATED, BEING_DELETED, CONTENT_BOUND, GROUP_CONTENT_BOUND};
use sidecar::text::Text;
use sidecar_testkit::sim::storage::{Wish, plain};
use snapshotter::model::{Content, Policy};

use super::effect::{handle, is_marked, is_of_group};
use super::groups::{is_member, owner_of};
use super::kind::Kind;
use super::world::{Faults, World};

pub(super) fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

pub(super) fn holds(object: &Value, finalizer: &str) -> bool {
    let list = object["metadata"]["finalizers"].as_array();
    list.is_some_and(|list| list.iter().any(|held| *held == *finalizer))
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
pub(super) const CONTENTS: [Kind; 2] = [Kind::Content, Kind::GroupContent];

/// The handles of a content: the recorded one, and the one its source names.
fn handles(content: &Value) -> impl Iterator<Item = &str> {
    let on_record = handle(content).as_str();
    let source = &content["spec"]["source"];
    let wished = source["snapshotHandle"].as_str();
    let group = source["groupSnapshotHandles"]["volumeGroupSnapshotHandle"].as_str();
    on_record.into_iter().chain(wished).chain(group)
}

impl World {
    /// Checks after each tick.
    pub(super) fn check(&mut self) {
        self.check_storage();
        let stamp = self.stamp();
        if std::mem::replace(&mut self.seen.checked, stamp) == stamp {
            return;
        }
        let wrong = self.wrong_promise();
        let wrong = wrong.or_else(|| self.wrong_promise_of_group());
        self.complain_if(wrong);
    }

    /// Records changes of contents.
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

    /// A content is gone: records a snapshot that outlives it, and a VolumeSnapshot that lost it.
    fn went(&mut self, last: &Value) {
        let uid = uid_of(last);
        let retained = last["spec"]["deletionPolicy"] == "Retain";
        // No finalizer held it: the user who deleted it keeps the snapshot.
        let held = holds(last, CONTENT_BOUND) || holds(last, GROUP_CONTENT_BOUND);
        let bare = self.seen.by_hand && !held;
        // The snapshot of an unbound content is deleted with it once a look-up has found it.
        let unknown = uid.is_empty() && handle(last).is_null();
        if retained || bare || unknown {
            self.outlives(last);
        }
        if bare {
            self.robs(last);
        }
    }

    /// Records that the snapshot of a content belongs to nobody from now on, and may stay.
    pub(super) fn outlives(&mut self, content: &Value) {
        let uid = uid_of(content);
        let all = handles(content).map(plain).map(Text::from);
        let name = if is_of_group(content) {
            format!("groupsnapshot-{uid}")
        } else {
            format!("snapshot-{uid}")
        };
        let all = all.chain([name.into()]);
        self.seen.kept.extend(all);
    }

    /// Records that users removed a VolumeSnapshot's content.
    pub(super) fn robs(&mut self, content: &Value) {
        let name = content["metadata"]["name"].as_str().unwrap_or_default();
        self.seen
            .robbed
            .extend([uid_of(content), name].map(Text::from));
    }

    /// Storage neither has nor can get a snapshot that nobody would delete.
    pub(super) fn check_storage(&mut self) {
        let stamp = self.stamp();
        if std::mem::replace(&mut self.seen.stored, stamp) == stamp {
            return;
        }
        let stray = self.stray();
        self.complain_if(stray);
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

    /// Finds a ready VolumeSnapshot whose snapshot is not ready.
    fn wrong_promise(&self) -> Option<String> {
        self.server.all(Kind::Snapshot).find_map(|(key, snapshot)| {
            let uid = snapshot["metadata"]["uid"].as_str().unwrap();
            let ready = snapshot["status"]["readyToUse"] == true;
            let member = owner_of(snapshot).is_some() || self.seen.cut.contains(uid);
            let goes = member && !self.is_held_by_group(snapshot);
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
            let lost = lost.as_str().is_some_and(|group| {
                !self.storage.snapshots.contains_key(group) || self.groups.torn.contains(group)
            });
            // An administrator's, unknown to the group as yet, or a detached member.
            if lost && owner_of(snapshot).is_none() || self.seen.cut.contains(uid) {
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

    /// Users get no warning that only the order of events explains.
    pub(super) fn hear_warnings(&mut self) {
        for (reason, key, message) in std::mem::take(&mut self.controller.warnings) {
            if self.faults != Faults::None {
                continue;
            }
            if message.contains("modified") {
                self.complain(format!("{key} tells of a conflict: {message}"));
            }
            let snapshot = self.server.get(Kind::Snapshot, &key);
            let uid = snapshot.and_then(|one| one["metadata"]["uid"].as_str());
            let there = uid.is_some_and(|uid| {
                let mut contents = self.server.all(Kind::Content);
                contents.any(|(_, one)| uid_of(one) == uid)
            });
            if there && reason == "SnapshotContentMissing" {
                self.complain(format!("{key} misses a content that is there"));
            }
        }
    }

    /// Checks a call of CreateSnapshot.
    pub(super) fn hold_create(&mut self, name: &Text, call: &CreateSnapshotRequest) {
        let Some(content) = self.server.get(Kind::Content, name) else {
            if !self.seen.robbed.contains(name) {
                self.complain(format!("a snapshot for {name}, which is gone"));
            }
            return;
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
        let wrong = wrong.map(|wrong| format!("{wrong}: {content}"));
        self.complain_if(wrong);
    }

    /// Checks a call of DeleteSnapshot.
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
        self.hold_own(&known, content, &call.snapshot_id);
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
        let wrong = wrong.map(|wrong| format!("{wrong}: {content}"));
        self.complain_if(wrong);
    }

    /// Checks that a deletion is one of the content's own snapshot, as the process knows it or the server has it.
    pub(super) fn hold_own(&mut self, known: &Content, content: &Value, asked: &str) {
        let cached = [known.handle(), known.wished()].into_iter().flatten();
        let mut own = cached.map(|own| &**own).chain(handles(content));
        if !own.any(|own| plain(own) == plain(asked)) {
            self.complain(format!(
                "the deletion of {asked}, which is not its own: {content}"
            ));
        }
    }

    /// Checks a snapshot's deletion.
    pub(super) fn hold_deleted(&mut self, handle: &Text) {
        let mut all = self.seen.contents.iter();
        let of = all.find(|(_, content)| handles(content).any(|one| *plain(one) == **handle));
        if let Some((name, _)) = of.filter(|(name, _)| !self.seen.deletable.contains(*name)) {
            let wrong = format!("the snapshot of {name} is deleted, and was always retained");
            self.complain(wrong);
        }
    }
}
