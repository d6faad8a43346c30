//! Attempts advance: requests reach the server, answers come back, and every change is held against
//! the invariants.

use serde_json::Value;
use sidecar::snapshot::{CLAIM_AS_SOURCE, GROUP_HANDLE, SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND};

use sidecar_testkit::sim::fate::Fate;

use super::process::{State, about, answer_of};
use super::world::{Faults, World};
use crate::model::Text;
use crate::plan::step::{Answer, ApiError, Object, Refusal, Step};
use crate::testing::request::{apply, kind_and_key};
use crate::testing::server::{Kind, error, finalizers, refused};

/// Whether a request arrives before its process sends the next one about the same, and before its
/// successor lists: see the module.
pub(super) fn comes_in_order(step: &Step) -> bool {
    match step {
        Step::Create(..) | Step::UpdateClaim(..) => true,
        Step::Patch(Object::Content(_), patch) => !patch["spec"].is_null(),
        Step::Read(_) | Step::Patch(..) | Step::PatchStatus(..) | Step::Delete(..) => false,
    }
}

/// Whether a request is about a group, or one that only groups make.
fn is_of_group(step: &Step) -> bool {
    match step {
        Step::Create(Object::GroupContent(_) | Object::Snapshot(_), _)
        | Step::Delete(Object::GroupContent(_) | Object::Snapshot(_), _)
        | Step::PatchStatus(Object::Content(_), _) => true,
        Step::Create(_, body) => body["metadata"]["annotations"][GROUP_HANDLE].is_string(),
        Step::Patch(Object::Group(_), _) => true,
        Step::Read(_)
        | Step::Patch(..)
        | Step::PatchStatus(..)
        | Step::Delete(..)
        | Step::UpdateClaim(..) => false,
    }
}

impl World {
    pub(super) fn advance(&mut self, index: usize) {
        match self.process.attempts.leave(index) {
            State::Deciding => {
                if let Some(step) = self.process.decide(index) {
                    self.spin();
                    self.hold_decision(&step);
                    self.process.attempts.enter(index, State::Sent(step));
                }
            }
            State::Sent(step) => {
                let (answer, json) = self.send(&step);
                self.process
                    .attempts
                    .enter(index, State::Answered((step, answer), json));
            }
            State::Answered((step, answer), json) => {
                self.process.answer(index, step, answer, json.as_deref());
            }
            State::Calling(..) | State::Fenced => unreachable!("no driver, and no lease that ends"),
        }
        self.hear_warnings();
    }

    /// What must be true of a request at the moment at which it is decided on.
    fn hold_decision(&mut self, step: &Step) {
        let Step::Delete(Object::Content(name), _) = step else {
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

    fn fate(&mut self, step: &Step) -> Fate {
        if !self.is_faulty() {
            return Fate::Applied;
        }
        let fate = Fate::draw(&mut self.dice, 6, &Fate::FAULTS);
        if comes_in_order(step) {
            fate.in_order()
        } else {
            fate
        }
    }

    fn send(&mut self, step: &Step) -> (Answer, Option<Text>) {
        let unknown = || Answer::Refused(error(Refusal::Unknown, "nobody knows"));
        match self.fate(step) {
            Fate::Applied => match self.apply(step) {
                Ok(json) => (answer_of(step, &json), Some(json)),
                Err(error) => (Answer::Refused(error), None),
            },
            Fate::Unheard => {
                let _ = self.apply(step);
                (unknown(), None)
            }
            Fate::Lost => (unknown(), None),
            Fate::Late => {
                if !matches!(step, Step::Read(_)) {
                    self.late.push(step.clone());
                }
                (unknown(), None)
            }
            Fate::Refused => (Answer::Refused(error(Refusal::Other, "refused")), None),
        }
    }

    fn apply(&mut self, step: &Step) -> Result<Text, ApiError> {
        self.hold(step);
        let json = self.requests(step)?;
        self.held(step);
        // The answer to a DELETE that leaves nothing is no object.
        let (kind, key) = about(step);
        let deletes = matches!(step, Step::Delete(..));
        if deletes && self.server.get(kind, &key).is_none() {
            Err(error(Refusal::NotFound, "it is gone"))
        } else {
            Ok(json)
        }
    }

    pub(super) fn requests(&mut self, step: &Step) -> Result<Text, ApiError> {
        if let Step::Delete(of, _) = step
            && self.deletes_anything()
        {
            let (kind, key) = kind_and_key(of);
            return self.server.delete(kind, key, None).map_err(refused);
        }
        apply(&mut self.server, step)
    }

    /// What must be true of a request at the moment at which it arrives, if it is applied.
    pub(super) fn hold(&mut self, step: &Step) {
        let (kind, key) = about(step);
        let before = self.server.get(kind, &key).cloned();
        let violation = match step {
            _ if is_of_group(step) => self.hold_group(step, before.as_ref()),
            Step::Read(_) | Step::PatchStatus(..) => None,
            Step::Create(Object::Content(_), body) if before.is_none() => self.may_not_create(body),
            Step::Create(..) => None,
            Step::Delete(_, exactly) => before
                .filter(|before| {
                    let version = &before["metadata"]["resourceVersion"];
                    self.deletes_anything() || *version == *exactly.version
                })
                .and_then(|before| self.may_not_delete(&before)),
            Step::Patch(_, patch) => before.and_then(|before| {
                { self.adopts(&before, patch) }.or_else(|| self.loses(&before, patch))
            }),
            Step::UpdateClaim(_, json) => {
                let after: Value = serde_json::from_str(json).unwrap();
                before.and_then(|before| self.may_not_free(&key, &before, &after))
            }
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
    pub(super) fn held(&mut self, step: &Step) {
        let reference = match step {
            Step::Create(Object::Content(_), body) => &body["spec"]["volumeSnapshotRef"]["uid"],
            Step::Create(Object::GroupContent(_), body) => {
                &body["spec"]["volumeGroupSnapshotRef"]["uid"]
            }
            Step::Read(_)
            | Step::Patch(..)
            | Step::PatchStatus(..)
            | Step::Create(..)
            | Step::Delete(..)
            | Step::UpdateClaim(..) => return,
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

    /// Whether a mutant's DELETE does not say which version it is for.
    fn deletes_anything(&self) -> bool {
        self.process.known.mutant.deletes_anything()
    }
}
