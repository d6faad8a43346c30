//! Attempts advance: requests reach the server, answers come back, and every change is held against
//! the invariants.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "few requests are of interest"
)]

use serde_json::Value;
use sidecar::controller::request::{Body, Part};
use sidecar::snapshot::{CLAIM_AS_SOURCE, GROUP_HANDLE, SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND};

use sidecar_testkit::sim::fate::Fate;

use super::groups::is;
use super::process::State;
use super::world::{Faults, World};
use crate::model::Text;
use crate::plan::request::{ApiError, Object, Refusal, Request, Write};
use crate::testing::request::{answered, apply, kind_and_key};
use crate::testing::server::{Kind, error, finalizers, refused};

/// Whether a request arrives before its process sends the next one about the same, and before its
/// successor lists: see the module.
pub(super) fn comes_in_order(write: &Write) -> bool {
    match (&write.object, &write.body) {
        (_, Body::Create(_) | Body::Replace(_) | Body::Edit(_)) => true,
        (Object::Content(_), Body::Patch(Part::Main, patch)) => !patch.body()["spec"].is_null(),
        (_, Body::Patch(..) | Body::Delete(_)) => false,
    }
}

/// Whether a request is about a group, or one that only groups make.
fn is_of_group(write: &Write) -> bool {
    match (&write.object, &write.body) {
        (Object::GroupContent(_) | Object::Snapshot(_), Body::Create(_) | Body::Delete(_))
        | (Object::Content(_), Body::Patch(Part::Status, _))
        | (Object::Group(_), Body::Patch(Part::Main, _)) => true,
        (_, Body::Create(body)) => body["metadata"]["annotations"][GROUP_HANDLE].is_string(),
        (_, Body::Patch(..) | Body::Delete(_) | Body::Replace(_) | Body::Edit(_)) => false,
    }
}

impl World {
    pub(super) fn advance(&mut self, index: usize) {
        match self.process.attempts.leave(index) {
            State::Deciding => {
                if let Some(request) = self.process.decide(index) {
                    self.spin();
                    self.hold_decision(&request);
                    self.process.attempts.enter(index, State::Sent(request));
                }
            }
            State::Sent(request) => {
                let came = self.send(&request);
                let json = came.as_ref().ok().cloned();
                let state = State::Answered(answered(request, came), json);
                self.process.attempts.enter(index, state);
            }
            State::Answered(reply, json) => self.process.answer(index, reply, json.as_deref()),
            State::Calling(..) | State::Fenced => unreachable!("no driver, and no lease that ends"),
        }
        self.hear_warnings();
    }

    /// What must be true of a request at the moment at which it is decided on.
    fn hold_decision(&mut self, request: &Request) {
        let Request::Write(Write {
            object: Object::Content(name),
            body: Body::Delete(_),
            ..
        }) = request
        else {
            return;
        };
        let known = &self.process.known;
        let content = known.contents.store.get(name);
        let restores = content.map(|content| content.snapshot_key());
        let claims = &known.claims.store;
        let snapshot = { restores.as_ref() }.and_then(|key| known.snapshots.store.get(key));
        let can_be = snapshot.is_some_and(|snapshot| snapshot.can_be_restored());
        // Those of other namespaces have no grant.
        let restored = can_be && { claims.iter() }
            .any(|(key, claim)| key.as_str().starts_with("ns/") && claim.restores == restores);
        if restored {
            self.complain(format!("{name} is deleted and is being restored"));
        }
    }

    fn fate(&mut self, request: &Request) -> Fate {
        if !self.is_faulty() {
            return Fate::Applied;
        }
        let fate = Fate::draw(&mut self.dice, 6, &Fate::FAULTS);
        if matches!(request, Request::Write(write) if comes_in_order(write)) {
            fate.in_order()
        } else {
            fate
        }
    }

    fn send(&mut self, request: &Request) -> Result<Text, ApiError> {
        match self.fate(request) {
            Fate::Applied => return self.apply(request),
            Fate::Unheard => drop(self.apply(request)),
            Fate::Lost => {}
            Fate::Late => {
                if let Request::Write(write) = request {
                    self.late.push(write.clone());
                }
            }
            Fate::Refused => return Err(error(Refusal::Other, "refused")),
        }
        Err(error(Refusal::Unknown, "nobody knows"))
    }

    fn apply(&mut self, request: &Request) -> Result<Text, ApiError> {
        match request {
            Request::Write(write) => self.write(write),
            _ => apply(&mut self.server, request),
        }
    }

    /// A write arrives.
    pub(super) fn write(&mut self, write: &Write) -> Result<Text, ApiError> {
        self.hold(write);
        let (kind, key) = kind_and_key(&write.object);
        let json = { &mut self.server }.write(kind, key, write.uid.as_deref(), &write.body);
        let json = json.map_err(refused)?;
        self.held(write);
        // The answer to a DELETE that leaves nothing is no object.
        if matches!(write.body, Body::Delete(_)) && self.server.get(kind, key).is_none() {
            return Err(ApiError::gone());
        }
        Ok(json)
    }

    /// What must be true of a write at the moment at which it arrives, if it is applied.
    fn hold(&mut self, write: &Write) {
        let (kind, key) = kind_and_key(&write.object);
        let before = self.server.get(kind, key).cloned();
        let violation = match &write.body {
            _ if is_of_group(write) => self.hold_group(write, before.as_ref()),
            Body::Create(body) if kind == Kind::Content && before.is_none() => {
                self.may_not_create(body)
            }
            Body::Create(_) | Body::Patch(Part::Status, _) => None,
            Body::Delete(version) => before
                .filter(|before| is(before, version.as_ref()))
                .and_then(|before| self.may_not_delete(&before)),
            Body::Patch(Part::Main, patch) => before.and_then(|before| {
                { self.adopts(&before, patch.body()) }.or_else(|| self.loses(&before, patch.body()))
            }),
            Body::Replace(json) => {
                let after: Value = serde_json::from_str(json).unwrap();
                before.and_then(|before| self.may_not_free(key, &before, &after))
            }
            Body::Edit(edit) => before.and_then(|before| {
                let mut after = before.clone();
                edit.apply(write.uid.as_deref(), &mut after);
                self.may_not_free(key, &before, &after)
            }),
        };
        if let Some(violation) = violation {
            self.complain(violation);
        }
    }

    fn may_not_create(&self, body: &Value) -> Option<String> {
        let uid = body["spec"]["volumeSnapshotRef"]["uid"].as_str().unwrap();
        let snapshot = self.snapshot(uid)?;
        if !snapshot["status"]["creationTime"].is_null() {
            return Some(format!("{uid} is made again although it was taken"));
        }
        if snapshot["status"]["boundVolumeSnapshotContentName"].is_string()
            && !self.contents_of(uid).is_empty()
        {
            return Some(format!("{uid} is made again beside what it is bound to"));
        }
        let claim = snapshot["spec"]["source"]["persistentVolumeClaimName"].as_str()?;
        let claim = self.server.get(Kind::Claim, &format!("ns/{claim}"))?;
        let held = finalizers(claim).iter().any(|one| one == CLAIM_AS_SOURCE);
        (!held).then(|| format!("{uid} is made of a claim that is not protected"))
    }

    fn may_not_delete(&self, content: &Value) -> Option<String> {
        let name = &content["metadata"]["name"];
        let half = content["metadata"]["annotations"][GROUP_HANDLE].is_string()
            && content["spec"]["volumeSnapshotRef"]["uid"].is_null();
        if half {
            return None;
        }
        if content["spec"]["deletionPolicy"] == "Retain" {
            return Some(format!("{name} is deleted, and was to be kept"));
        }
        let uid = content["spec"]["volumeSnapshotRef"]["uid"]
            .as_str()
            .unwrap_or_default();
        match self.snapshot(uid) {
            Some(snapshot) if !snapshot["metadata"]["deletionTimestamp"].is_null() => None,
            Some(_) => Some(format!("{name} is deleted before its VolumeSnapshot")),
            None if self.stripped.contains(uid) => None,
            None => Some(format!("{name} is deleted without its VolumeSnapshot")),
        }
    }

    /// A change of finalizers that is applied: nothing of others goes, and nothing goes too early.
    fn loses(&self, before: &Value, patch: &Value) -> Option<String> {
        let name = &before["metadata"]["name"];
        let version = &patch["metadata"]["resourceVersion"];
        if !version.is_null() && *version != before["metadata"]["resourceVersion"] {
            return None;
        }
        let fields = patch["metadata"].as_object()?;
        if !fields.contains_key("finalizers") {
            return None;
        }
        let after = finalizers(patch);
        let others = finalizers(before)
            .into_iter()
            .filter(|one| one.starts_with("x/"));
        if let Some(lost) = others.into_iter().find(|one| !after.contains(one)) {
            return Some(format!("{name} loses {lost}"));
        }
        let holds = [SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND];
        if before["kind"] != "VolumeSnapshot" || after.iter().any(|one| holds.contains(&&**one)) {
            return None;
        }
        let uid = before["metadata"]["uid"].as_str().unwrap();
        let waits = self.contents_of(uid).into_iter().find(|content| {
            content["spec"]["deletionPolicy"] == "Delete"
                && content["metadata"]["deletionTimestamp"].is_null()
        });
        waits.map(|content| format!("{name} goes before {}", content["metadata"]["name"]))
    }

    fn may_not_free(&self, key: &Text, before: &Value, after: &Value) -> Option<String> {
        if before["metadata"]["resourceVersion"] != after["metadata"]["resourceVersion"] {
            return None;
        }
        let left = finalizers(after);
        let others = finalizers(before)
            .into_iter()
            .filter(|one| one != CLAIM_AS_SOURCE);
        if let Some(lost) = others.into_iter().find(|one| !left.contains(one)) {
            return Some(format!("{key} loses {lost}"));
        }
        if left.iter().any(|one| one == CLAIM_AS_SOURCE) {
            return None;
        }
        let user = self.server.all(Kind::Snapshot).find(|(_, snapshot)| {
            let uid = snapshot["metadata"]["uid"].as_str().unwrap();
            let claim = snapshot["spec"]["source"]["persistentVolumeClaimName"].as_str();
            claim.is_some_and(|claim| **key == format!("ns/{claim}"))
                && snapshot["status"]["readyToUse"] != true
                // Groups protect no claims.
                && snapshot["metadata"]["ownerReferences"].is_null()
                && snapshot["metadata"]["deletionTimestamp"].is_null()
                // What was applied with its content is taken without its claim.
                && { self.contents_of(uid).into_iter() }
                    .any(|one| one["metadata"]["name"] == format!("snapcontent-{uid}"))
        });
        user.map(|(user, _)| format!("{key} is let go, and {user} is being taken of it"))
    }

    /// What was made is counted.
    fn held(&mut self, write: &Write) {
        let reference = match (&write.object, &write.body) {
            (Object::Content(_), Body::Create(body)) => &body["spec"]["volumeSnapshotRef"]["uid"],
            (Object::GroupContent(_), Body::Create(body)) => {
                &body["spec"]["volumeGroupSnapshotRef"]["uid"]
            }
            _ => return,
        };
        // A member's content has none yet.
        let Some(uid) = reference.as_str().map(str::to_owned) else {
            return;
        };
        let robbed = self.robbed.contains(&uid);
        let made = self.made.entry(uid.clone()).or_default();
        *made += 1;
        if *made > 1 && !robbed {
            self.complain(format!("{uid} has more than one content"));
        }
    }

    /// What users are told is true.
    pub(super) fn hear_warnings(&mut self) {
        for (reason, key, message) in std::mem::take(&mut self.process.warnings) {
            if self.faults == Faults::None && message.contains("modified") {
                self.complain(format!("{key} tells of a conflict: {message}"));
            }
            let snapshot = self.server.get(Kind::Snapshot, &key);
            let Some(uid) = snapshot.and_then(|one| one["metadata"]["uid"].as_str()) else {
                continue;
            };
            let there = !self.contents_of(uid).is_empty();
            if there && self.faults == Faults::None && reason == "SnapshotContentMissing" {
                self.complain(format!("{key} misses a content that is there"));
            }
        }
    }

    /// The VolumeSnapshot with this UID.
    pub(super) fn snapshot(&self, uid: &str) -> Option<&Value> {
        let mut all = self.server.all(Kind::Snapshot);
        all.find_map(|(_, snapshot)| (snapshot["metadata"]["uid"] == uid).then_some(snapshot))
    }

    /// The contents that are for the VolumeSnapshot with this UID.
    pub(super) fn contents_of(&self, uid: &str) -> Vec<&Value> {
        let all = self.server.all(Kind::Content);
        let of = all.filter(|(_, content)| content["spec"]["volumeSnapshotRef"]["uid"] == uid);
        of.map(|(_, content)| content).collect()
    }
}
