//! Bodies of patches: merge patches of the fields that this program owns, each for one resource version
//! of the content.
//!
//! Each has to preserve what others have written.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sidecar::snapshot::{ACCESSIBLE_TOPOLOGY, YES};

use super::answer::Report;
use crate::model::{Content, Kind, Member, Members};

/// Value of the mark if it was already set with the usual value.
pub const AGAIN: &str = "again";

/// Sent before a create call: from now on the call may have an effect, and the content stays until the
/// outcome is known.
///
/// If the mark is already set, it gets another value, which forces a new resource version: so no patch
/// that is still on its way, of this process or of an earlier one, can remove the mark.
#[must_use]
pub fn mark(content: &Content) -> Value {
    let mut metadata = bound_to(content);
    let value = if content.being_created && !content.marked_again {
        AGAIN
    } else {
        YES
    };
    let kind = content.kind();
    let mark = json!({ kind.being_created(): value });
    metadata.insert("annotations".to_owned(), mark);
    // The API server refuses new finalizers on an object that is being deleted.
    if !content.is_protected() && !content.deleting {
        let held = content.finalizers.iter().map(|held| &**held);
        let all: Vec<&str> = held.chain([kind.finalizer()]).collect();
        metadata.insert("finalizers".to_owned(), json!(all));
    }
    json!({ "metadata": metadata })
}

/// No call has an unknown outcome any more: removes the mark.
#[must_use]
pub fn unmark(content: &Content) -> Value {
    let mut metadata = bound_to(content);
    let mark = json!({ content.kind().being_created(): null });
    metadata.insert("annotations".to_owned(), mark);
    json!({ "metadata": metadata })
}

/// Writes the accessible topology.
#[must_use]
pub fn topology(content: &Content, topology: &str) -> Value {
    let mut metadata = bound_to(content);
    let written = json!({ ACCESSIBLE_TOPOLOGY: topology });
    metadata.insert("annotations".to_owned(), written);
    json!({ "metadata": metadata })
}

/// Removes the finalizer.
#[must_use]
pub fn release(content: &Content) -> Value {
    let mut metadata = bound_to(content);
    let others = content.finalizers.iter();
    let others = others.map(|held| &**held);
    let ours = content.kind().finalizer();
    let others: Vec<&str> = others.filter(|held| *held != ours).collect();
    let list = (!others.is_empty()).then_some(others);
    metadata.insert("finalizers".to_owned(), json!(list));
    json!({ "metadata": metadata })
}

/// Writes the driver's report; `None` if the status has it already.
#[must_use]
pub fn report(content: &Content, report: &Report) -> Option<Value> {
    let (kind, nothing) = (content.kind(), crate::model::Status::default());
    let had = content.status.as_ref().unwrap_or(&nothing);
    let mut status = Map::new();
    let mut set = |field: &str, value: Value| status.insert(field.to_owned(), value);
    if had.handle.is_none() {
        set(handle_field(kind), json!(*report.handle));
    }
    if had.ready != Some(report.ready) {
        set("readyToUse", json!(report.ready));
        if report.ready && had.error.is_some() {
            set("error", Value::Null);
        }
    }
    if had.created.is_none() {
        set("creationTime", time(kind, report.created));
    }
    if let (None, Some(size)) = (had.size, report.size) {
        set("restoreSize", json!(size));
    }
    if let (None, Some(group)) = (&had.group, &report.group) {
        set("volumeGroupSnapshotHandle", json!(**group));
    }
    if let Some(members) = members(&had.members, &report.members) {
        let list: Vec<Value> = members.iter().map(member).collect();
        set("volumeSnapshotInfoList", list.into());
    }
    (!status.is_empty()).then(|| with_status(content, status))
}

const fn handle_field(kind: Kind) -> &'static str {
    match kind {
        Kind::Single => "snapshotHandle",
        Kind::Group => "volumeGroupSnapshotHandle",
    }
}

/// Nanoseconds for a single snapshot, RFC 3339 for a group.
fn time(kind: Kind, nanos: i64) -> Value {
    match kind {
        Kind::Single => json!(nanos),
        Kind::Group => {
            let time = Timestamp::from_nanosecond(nanos.into()).unwrap_or_default();
            json!(text(time))
        }
    }
}

fn text(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The members of a group, if the report adds something to `had`: their handles stay, and an unready
/// one may become ready.
fn members(had: &Members, report: &Members) -> Option<Members> {
    if had.is_empty() {
        return (!report.is_empty()).then(|| report.clone());
    }
    let known = had.iter().map(|had| {
        let report = report.iter().find(|report| report.handle == had.handle);
        match report.filter(|_| had.ready != Some(true)) {
            Some(report) => Member {
                created: had.created.or(report.created),
                ready: report.ready,
                size: had.size.or(report.size),
                ..had.clone()
            },
            None => had.clone(),
        }
    });
    let known: Members = known.collect();
    (known != *had).then_some(known)
}

fn member(member: &Member) -> Value {
    let mut entry = Map::new();
    let mut set = |field: &str, value: Value| entry.insert(field.to_owned(), value);
    set("volumeHandle", json!(*member.volume));
    set("snapshotHandle", json!(*member.handle));
    if let Some(created) = member.created {
        set("creationTime", json!(created));
    }
    if let Some(ready) = member.ready {
        set("readyToUse", json!(ready));
    }
    if let Some(size) = member.size {
        set("restoreSize", json!(size));
    }
    entry.into()
}

/// Writes the error.
#[must_use]
pub fn fail(content: &Content, message: &str, now: Timestamp) -> Value {
    let status = json!({
        "readyToUse": false,
        "error": { "time": text(now), "message": message },
    });
    json!({ "metadata": bound_to(content), "status": status })
}

/// Removes the deleted snapshot from the status; `None` if the status has none. A group keeps its list
/// of members, so that the deletion can be repeated.
#[must_use]
pub fn clear(content: &Content) -> Option<Value> {
    let had = content.status.as_ref()?;
    let mut status = Map::new();
    let kind = content.kind();
    for (field, there) in [
        (handle_field(kind), had.handle.is_some()),
        ("readyToUse", had.ready.is_some()),
        ("creationTime", had.created.is_some()),
        ("restoreSize", had.size.is_some()),
        ("error", kind == Kind::Group && had.error.is_some()),
    ] {
        if there {
            status.insert(field.to_owned(), Value::Null);
        }
    }
    (!status.is_empty()).then(|| with_status(content, status))
}

fn with_status(content: &Content, status: Map<String, Value>) -> Value {
    json!({ "metadata": bound_to(content), "status": status })
}

/// The API server refuses the patch (409) if the content has changed since.
fn bound_to(content: &Content) -> Map<String, Value> {
    let mut metadata = Map::new();
    if content.version != 0 {
        let version = content.version.to_string();
        metadata.insert("resourceVersion".to_owned(), version.into());
    }
    metadata
}
