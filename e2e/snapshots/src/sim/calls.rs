//! The checks of csi-snapshotter alone: its calls, its reports, and what it leaves undone.

use serde_json::Value;
use sidecar::controller::request::Body;
use sidecar::snapshot::{ACCESSIBLE_TOPOLOGY, DELETION_SECRET_NAME, GROUP_DELETION_SECRET_NAME};
use sidecar::text::Text;
use sidecar_testkit::sim::server::finalizers;
use sidecar_testkit::sim::storage::plain;
use snapshotter::plan::request::{Announcement, Call, Secrets};

use super::check::{CONTENTS, has, is_deleting, uid_of};
use super::crowd::is_foreign;
use super::effect::{handle, is_marked, is_of_group, is_told, new_handle};
use super::groups::is_member;
use super::kind::Kind;
use super::objects::{BINARY, DRIVER, LISTING, value_of};
use super::snapshotter::{Sort, is_kept};
use super::users::HOLDER;
use super::world::{Faults, World};

impl World {
    /// Checks a call of any kind.
    pub(super) fn hold_call<S: Sort>(&mut self, name: &Text, call: &Call) {
        let known = S::of(self).known.contents.store.get(name);
        let kept = known.is_some_and(|known| is_kept(known) && !known.being_created);
        if kept && matches!(call, Call::Create(_) | Call::CreateGroup(_)) {
            self.complain(format!("nobody wants {name} to become ready"));
        }
        let Some(content) = self.server.get(S::CONTENT, name) else {
            return;
        };
        let needed = named_secret(content, call).map(value_of);
        let carried = secrets(call).get("u").map(String::as_str);
        let wrong = if is_foreign(content) {
            Some("a call for a content of another driver")
        } else if needed.is_some() && carried != needed {
            Some("a call without its Secret")
        } else {
            None
        };
        let wrong = wrong.map(|wrong| format!("{wrong}: {content}"));
        self.complain_if(wrong);
    }

    /// Checks a patch of a content or of its status.
    pub(super) fn hold_patch<S: Sort>(&mut self, name: &Text, body: &Body) {
        let ours = [S::SORT.being_created(), ACCESSIBLE_TOPOLOGY];
        let annotations = body.patch()["metadata"]["annotations"].as_object();
        let mut written = annotations.into_iter().flat_map(|all| all.keys());
        if let Some(other) = written.find(|key| !ours.contains(&key.as_str())) {
            self.complain(format!("{name} gets {other}, which is another's"));
        }
        let content = self.server.get(S::CONTENT, name);
        if content.is_some_and(is_foreign) {
            self.complain(format!("a patch of {name}, which is of another driver"));
        }
    }

    /// Checks an event.
    pub(super) fn hold_event(&mut self, name: &Text, told: &Announcement) {
        // Without faults nobody undoes a write.
        let undone = told.message.contains("accepted a patch of the content");
        if undone && self.faults == Faults::None {
            self.complain(format!("{name} tells of a write without effect: {told:?}"));
        }
    }

    /// Reports a status with an unknown handle, without the topology, ready before the driver says so, or with another
    /// size than the driver's.
    pub(super) fn wrong_report(&self, before: &Value, patch: &Value) -> Option<String> {
        // The controller reports about members.
        if is_member(before) {
            return None;
        }
        let name = &before["metadata"]["name"];
        let new = new_handle(before, patch).and_then(Value::as_str);
        let known = handle(before).as_str();
        if let (Some(new), None) = (new, known) {
            let there = self.storage.get(new).is_some() || self.groups.had(plain(new));
            if !there && !is_deleting(before) {
                return Some(format!("{name} gets an unknown handle, {new}"));
            }
            // The driver says it of each snapshot that it takes, and in a crowded cluster in lists, too.
            let taken = before["spec"]["source"]["volumeHandle"].is_string();
            let said = !is_of_group(before) && (taken || self.crowded);
            if said && !has(before, ACCESSIBLE_TOPOLOGY) {
                return Some(format!("{name} gets {new} without its topology"));
            }
        }
        let status = &patch["status"];
        let ready = status["readyToUse"] == true && before["status"]["readyToUse"] != true;
        let snapshot = new.or(known).and_then(|handle| self.storage.get(handle));
        if ready && snapshot.is_some_and(|snapshot| snapshot.unready > 0) {
            return Some(format!("{name} is reported as ready too early: {patch}"));
        }
        let single = new.or(known).map(|handle| (handle, &status["restoreSize"]));
        let members = status["volumeSnapshotInfoList"].as_array();
        let members = members.into_iter().flatten().filter_map(|member| {
            let handle = member["snapshotHandle"].as_str()?;
            Some((handle, &member["restoreSize"]))
        });
        let mut sizes = single.into_iter().chain(members);
        let (handle, size) = sizes.find(|(handle, size)| self.differs(handle, size))?;
        Some(format!(
            "{name} gets another size of {handle} than the driver's: {size}"
        ))
    }

    /// Whether the driver has reported another size of this snapshot.
    fn differs(&self, handle: &str, size: &Value) -> bool {
        let handle = plain(handle);
        let single = self.storage.snapshots.get(handle);
        let member = self.groups.members.get(handle);
        let real = single.map(|snapshot| snapshot.size);
        let real = real.or_else(|| member.map(|member| member.size));
        let both = size.as_i64().zip(real);
        both.is_some_and(|(size, real)| size != real)
    }

    /// Without faults each snapshot is requested once, and once more for each answer that gives a reason.
    pub(super) fn check_calls(&self) -> Result<(), String> {
        if self.faults != Faults::None {
            return Ok(());
        }
        let mut all = self.seen.calls.iter();
        let wrong = all.find(|(_, calls)| calls.made > calls.repeatable + 1);
        wrong.map_or(Ok(()), |(name, calls)| {
            let (made, repeatable) = (calls.made, calls.repeatable);
            Err(format!(
                "{made} calls for {name}, although only {repeatable} had to be repeated"
            ))
        })
    }

    /// At rest no call is in doubt.
    pub(super) fn check_marks(&self) -> Result<(), String> {
        for kind in CONTENTS {
            for (name, content) in self.server.all(kind) {
                let others = is_deleting(content) || is_foreign(content) || is_member(content);
                let uid = uid_of(content);
                let stripped = self.seen.stripped.contains(uid);
                let lost = self.is_lost(content) || self.forgot(content) || stripped;
                if is_marked(content) && !others && !lost {
                    return Err(format!("{name} keeps the mark at rest: {content}"));
                }
            }
        }
        Ok(())
    }

    /// The status of a content whose snapshot the driver lost names that one and the one that the driver has now.
    pub(super) fn check_lost(&self) -> Result<(), String> {
        for (name, content) in self.server.all(Kind::Content) {
            let other = self.storage.named(&format!("snapshot-{}", uid_of(content)));
            let (Some(had), Some(other)) = (handle(content).as_str(), other) else {
                continue;
            };
            let message = content["status"]["error"]["message"].as_str();
            let told = message.is_some_and(|text| text.contains(had) && text.contains(&**other));
            let kept = is_told(content) && content["spec"]["deletionPolicy"] == "Retain";
            let asks = !kept && !is_deleting(content) && !is_marked(content);
            if *plain(had) != **other && asks && !told {
                return Err(format!("{name} does not tell of {other}: {content}"));
            }
        }
        Ok(())
    }

    /// What can be done is done, before people remove the obstacles of the rest.
    pub(super) fn check_beside(&self) -> Result<(), String> {
        for kind in CONTENTS {
            for (name, content) in self.server.all(kind) {
                if let Some(wrong) = self.undone(content) {
                    return Err(format!("{name} {wrong} beside others: {content}"));
                }
            }
        }
        Ok(())
    }

    fn undone(&self, content: &Value) -> Option<&'static str> {
        let held = finalizers(content).iter().any(|one| one == HOLDER);
        let others = held || is_foreign(content) || is_member(content);
        let lost = self.is_lost(content) || self.forgot(content);
        let passed = { self.class_of(content) }.is_some_and(|class| class["driver"] != DRIVER);
        let blocked = passed || self.away || self.lacks_secret(content);
        if others || lost || blocked || self.is_held_by_driver(content) {
            return None;
        }
        let (found, told) = (is_found(content), is_told(content));
        if is_deleting(content) {
            let unbound = found && uid_of(content).is_empty();
            return (told || unbound).then_some("stays Terminating");
        }
        if content["status"]["readyToUse"] == true {
            return is_marked(content).then_some("keeps the mark");
        }
        let kept = told && content["spec"]["deletionPolicy"] == "Retain";
        let can = found || !kept && self.can_be_taken(content);
        can.then_some("is not ready")
    }

    /// Whether a Secret of the content or of its class is missing or no text.
    fn lacks_secret(&self, content: &Value) -> bool {
        let of_class = lists(content).then_some(LISTING);
        let mut named = of_class.into_iter().chain(noted_secret(content));
        named.any(|name| {
            let secret = self.server.get(Kind::Secret, &format!("ns/{name}"));
            secret.is_none_or(|secret| secret[BINARY] == true)
        })
    }

    /// The content's class.
    fn class_of(&self, content: &Value) -> Option<&Value> {
        let spec = &content["spec"];
        let (kind, class) = if is_of_group(content) {
            (Kind::GroupClass, &spec["volumeGroupSnapshotClassName"])
        } else {
            (Kind::Class, &spec["volumeSnapshotClassName"])
        };
        self.server.get(kind, class.as_str()?)
    }

    /// Whether the content's class exists, and the driver has its snapshot or takes it.
    fn can_be_taken(&self, content: &Value) -> bool {
        let prefix = if is_of_group(content) {
            "groupsnapshot"
        } else {
            "snapshot"
        };
        let name = format!("{prefix}-{}", uid_of(content));
        let taken = !self.storage.picky || self.storage.named(&name).is_some();
        taken && self.class_of(content).is_some()
    }
}

/// Whether an administrator made the content for an existing snapshot or group.
fn is_found(content: &Value) -> bool {
    let source = &content["spec"]["source"];
    source["snapshotHandle"].is_string() || source["groupSnapshotHandles"].is_object()
}

/// Name of the Secret that the call must carry: the one of the class for look-ups of existing snapshots, else the one
/// in the annotations.
fn named_secret<'a>(content: &'a Value, call: &Call) -> Option<&'a str> {
    let looks_up = matches!(call, Call::List(_) | Call::Get(_) | Call::GetGroup(_));
    if looks_up && is_found(content) {
        return lists(content).then_some(LISTING);
    }
    noted_secret(content)
}

/// Whether its class names a Secret for look-ups.
fn lists(content: &Value) -> bool {
    let spec = &content["spec"];
    let names = [
        &spec["volumeSnapshotClassName"],
        &spec["volumeGroupSnapshotClassName"],
    ];
    names.iter().any(|class| **class == "cl" || **class == "gl")
}

/// Name of the Secret in its annotations.
fn noted_secret(content: &Value) -> Option<&str> {
    let annotations = &content["metadata"]["annotations"];
    let single = annotations[DELETION_SECRET_NAME].as_str();
    single.or_else(|| annotations[GROUP_DELETION_SECRET_NAME].as_str())
}

fn secrets(call: &Call) -> &Secrets {
    match call {
        Call::Create(call) => &call.secrets,
        Call::List(call) => &call.secrets,
        Call::Get(call) => &call.secrets,
        Call::Delete(call) => &call.secrets,
        Call::CreateGroup(call) => &call.secrets,
        Call::GetGroup(call) => &call.secrets,
        Call::DeleteGroup(call) => &call.secrets,
    }
}
