//! The effects of requests: a crash window lies between two of them.

use serde_json::Value;
use sidecar::controller::request::{Body, Part};
use sidecar::snapshot::{
    ACCESSIBLE_TOPOLOGY, BEING_CREATED, BEING_DELETED, CLAIM_AS_SOURCE, CONTENT_BOUND,
    GROUP_BEING_CREATED, GROUP_BEING_DELETED, GROUP_CONTENT_BOUND, GROUP_SNAPSHOT_BOUND,
    SNAPSHOT_AS_SOURCE, SNAPSHOT_BOUND,
};

use super::check::holds;
use super::groups::is_member;
use super::kind::Kind;
use super::request::Request;

/// The effect of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    ProtectsSnapshot,
    ProtectsBound,
    ChoosesClass,
    ProtectsClaim,
    FreesClaim,
    MakesContent,
    ShowsBound,
    Follows,
    Complains,
    Binds,
    ProtectsContent,
    Announces,
    DeletesContent,
    FreesSnapshot,
    Marks,
    /// The driver has taken the snapshot.
    Takes,
    /// The snapshot's topology is written.
    Places,
    Reports,
    /// The status reports more about the recorded snapshot.
    ReportsMore,
    Unmarks,
    /// After a final error: no call is in doubt, and no snapshot exists.
    GivesUp,
    /// The error is in the status.
    Tells,
    /// The driver has deleted the snapshot.
    Removes,
    Clears,
    LetsGo,
    // --- groups
    ProtectsGroup,
    MakesMemberContent,
    MakesMember,
    BindsMember,
    ShowsMemberBound,
    FillsMember,
    Joins,
    DeletesMember,
    FreesGroup,
}

impl Request {
    /// The write's effect on the object `before`.
    pub(super) fn effect(&self, before: Option<&Value>) -> Option<Effect> {
        let nothing = Value::Null;
        let before = before.unwrap_or(&nothing);
        let Self::Write(write) = self else {
            return None;
        };
        Some(match (&write.body, write.kind) {
            (Body::Create(_), Kind::Snapshot) => Effect::MakesMember,
            (Body::Create(body), _) if is_member(body) => Effect::MakesMemberContent,
            (Body::Create(_), _) => Effect::MakesContent,
            (Body::Delete(_), Kind::Snapshot) => Effect::DeletesMember,
            (Body::Delete(_), _) => Effect::DeletesContent,
            (Body::Replace(_) | Body::Edit(_), _) if holds(before, CLAIM_AS_SOURCE) => {
                Effect::FreesClaim
            }
            (Body::Replace(_) | Body::Edit(_), _) => Effect::ProtectsClaim,
            (Body::Patch(part, patch), Kind::Snapshot) => of_snapshot(*part, patch.body(), before),
            (Body::Patch(part, patch), Kind::Group) => of_group(*part, patch.body(), before),
            (Body::Patch(part, patch), _) => of_content(*part, patch.body(), before),
        })
    }
}

fn of_snapshot(part: Part, patch: &Value, before: &Value) -> Effect {
    let status = &patch["status"];
    let owned = before["metadata"]["ownerReferences"].is_array();
    let gets = |one: &str| holds(patch, one) && !holds(before, one);
    match part {
        Part::Main if !patch["spec"].is_null() => Effect::ChoosesClass,
        Part::Main if !patch["metadata"]["ownerReferences"].is_null() => Effect::Joins,
        Part::Main if gets(SNAPSHOT_BOUND) => Effect::ProtectsBound,
        Part::Main if gets(SNAPSHOT_AS_SOURCE) => Effect::ProtectsSnapshot,
        Part::Main => Effect::FreesSnapshot,
        Part::Status if status["boundVolumeSnapshotContentName"].is_null() => {
            if status["error"].is_object() {
                Effect::Complains
            } else {
                Effect::Follows
            }
        }
        Part::Status if owned => Effect::ShowsMemberBound,
        Part::Status => Effect::ShowsBound,
    }
}

fn of_group(part: Part, patch: &Value, before: &Value) -> Effect {
    let status = &patch["status"];
    let gets = holds(patch, GROUP_SNAPSHOT_BOUND) && !holds(before, GROUP_SNAPSHOT_BOUND);
    match part {
        Part::Main if !patch["spec"].is_null() => Effect::ChoosesClass,
        Part::Main if gets => Effect::ProtectsGroup,
        Part::Main => Effect::FreesGroup,
        Part::Status if status["boundVolumeGroupSnapshotContentName"].is_string() => {
            Effect::ShowsBound
        }
        Part::Status if status["error"].is_object() => Effect::Complains,
        Part::Status => Effect::Follows,
    }
}

/// The recorded handle.
pub(super) fn handle(content: &Value) -> &Value {
    let status = &content["status"];
    match status.get("snapshotHandle") {
        Some(handle) => handle,
        None if is_of_group(content) => &status["volumeGroupSnapshotHandle"],
        None => &Value::Null,
    }
}

/// Whether this is a group's content.
pub(super) fn is_of_group(content: &Value) -> bool {
    content["spec"]["volumeGroupSnapshotRef"].is_object()
}

/// Whether a call may have taken effect.
pub(super) fn is_marked(content: &Value) -> bool {
    let annotations = &content["metadata"]["annotations"];
    annotations[BEING_CREATED].is_string() || annotations[GROUP_BEING_CREATED].is_string()
}

/// Whether the content says that its VolumeSnapshot or group is being deleted.
pub(super) fn is_told(content: &Value) -> bool {
    let annotations = &content["metadata"]["annotations"];
    annotations[BEING_DELETED].is_string() || annotations[GROUP_BEING_DELETED].is_string()
}

/// The new value of the recorded handle in a status patch, if it has one.
pub(super) fn new_handle<'a>(before: &Value, patch: &'a Value) -> Option<&'a Value> {
    let field = if is_of_group(before) {
        "volumeGroupSnapshotHandle"
    } else {
        "snapshotHandle"
    };
    patch["status"].get(field)
}

fn of_content(part: Part, patch: &Value, before: &Value) -> Effect {
    let annotations = &patch["metadata"]["annotations"];
    let mark = annotations.get(BEING_CREATED);
    let mark = mark.or_else(|| annotations.get(GROUP_BEING_CREATED));
    let held = holds(before, CONTENT_BOUND) || holds(before, GROUP_CONTENT_BOUND);
    if part == Part::Status {
        return match new_handle(before, patch) {
            Some(Value::Null) => Effect::Clears,
            Some(_) if is_member(before) => Effect::FillsMember,
            Some(_) if is_marked(before) => Effect::Reports,
            _ if patch["status"]["error"].is_object() => Effect::Tells,
            Some(_) | None => Effect::ReportsMore,
        };
    }
    match mark {
        _ if !patch["spec"].is_null() && is_member(before) => Effect::BindsMember,
        _ if !patch["spec"].is_null() => Effect::Binds,
        _ if is_told(patch) => Effect::Announces,
        _ if annotations[ACCESSIBLE_TOPOLOGY].is_string() => Effect::Places,
        Some(Value::Null) if handle(before).is_string() => Effect::Unmarks,
        Some(Value::Null) => Effect::GivesUp,
        Some(_) => Effect::Marks,
        None if held => Effect::LetsGo,
        None => Effect::ProtectsContent,
    }
}
