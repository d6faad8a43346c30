//! The checks of API writes.

use serde_json::Value;
use sidecar::controller::request::Body;
use sidecar::snapshot::{CLAIM_AS_SOURCE, SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND};
use sidecar::text::Text;
use sidecar_testkit::sim::server::finalizers;

use super::check::{CONTENTS, holds, is_deleting, uid_of};
use super::effect::{handle, is_told, new_handle};
use super::groups::{is_member, owner_of};
use super::kind::Kind;
use super::request::{Request, Write};
use super::world::World;

/// Whether a content was made for a member, and is bound to no VolumeSnapshot yet.
fn is_half(content: &Value) -> bool {
    is_member(content) && uid_of(content).is_empty()
}

impl World {
    /// Checks a write that was just applied.
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
                let robbed = self.seen.robbed.contains(uid_of(body));
                let made = self.seen.made.entry(uid_of(body).into()).or_default();
                *made += 1;
                if *made > 1 && !robbed {
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
        let name = &body["metadata"]["name"];
        let bound = snapshot["status"]["boundVolumeSnapshotContentName"].is_string();
        let mut all = self.server.all(Kind::Content);
        if bound && all.any(|(_, one)| uid_of(one) == uid && one["metadata"]["name"] != *name) {
            return Some(format!("{uid} is made again beside what it is bound to"));
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
            None if self.seen.stripped.contains(uid_of(content)) => None,
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
                // A group's members do not protect their claims.
                && owner_of(snapshot).is_none()
                && !is_deleting(snapshot)
                // A VolumeSnapshot applied together with its content needs no claim.
                && contents.any(|(name, content)| {
                    uid_of(content) == uid && **name == format!("snapcontent-{uid}")
                })
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
        let wrong = (kind == Kind::Snapshot).then(|| self.may_not_let_go(before, patch));
        let wrong = wrong.flatten();
        let wrong = wrong.or_else(|| self.may_not_change_group(kind, before, patch));
        if wrong.is_some() {
            return wrong;
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
        let wrong = self.changes_handle(before, patch);
        wrong.or_else(|| self.wrong_report(before, patch))
    }

    fn changes_handle(&self, before: &Value, patch: &Value) -> Option<String> {
        let name = &before["metadata"]["name"];
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

    /// Reports a VolumeSnapshot released before its content, if that is to be deleted with it, or a detached one
    /// that gets an owner again.
    fn may_not_let_go(&self, before: &Value, patch: &Value) -> Option<String> {
        let name = &before["metadata"]["name"];
        let uid = before["metadata"]["uid"].as_str()?;
        let fields = patch["metadata"].as_object()?;
        let owned = fields.get("ownerReferences").is_some_and(Value::is_array);
        if owned && self.seen.cut.contains(uid) {
            return Some(format!("{uid} was cut loose and is owned again"));
        }
        let is_held = |by: &Value| [SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND].map(|one| holds(by, one));
        let freed = is_held(before).contains(&true) && !is_held(patch).contains(&true);
        if !freed || !fields.contains_key("finalizers") {
            return None;
        }
        let waits = { self.server.all(Kind::Content) }.find(|(name, content)| {
            uid_of(content) == uid
                && !self.seen.reconsidered.contains(*name)
                && content["spec"]["deletionPolicy"] == "Delete"
                && !is_deleting(content)
        });
        waits.map(|(content, _)| format!("{name} goes before {content}"))
    }
}
