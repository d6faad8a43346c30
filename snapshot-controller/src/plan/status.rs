//! Makes the status of a VolumeSnapshot or VolumeGroupSnapshot follow its content's.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sidecar::alike::alike;

use super::attempt::Flow;
use super::complaint::{Complaint, Record};
use super::request::{Progress, Purpose, patch_status, present};
use crate::model::{ContentHead, Failure, Head};

/// The fields of the status that must change, with `time` as the content's creation time, and the progress that they
/// show for the first time.
pub(super) fn change(
    shown: &Head<'_>,
    content: &ContentHead<'_>,
    time: Option<String>,
) -> (Map<String, Value>, Progress) {
    let mut change = Map::new();
    let mut progress = Progress::default();
    let mut set = |field: &str, value: Value| change.insert(field.to_owned(), value);
    if shown.bound.is_none() {
        let field = shown.kind.say(
            "boundVolumeSnapshotContentName",
            "boundVolumeGroupSnapshotContentName",
        );
        set(field, (&**content.name).into());
    }
    if !shown.has_time
        && let Some(time) = time
    {
        set("creationTime", time.into());
        progress.created = true;
    }
    let ready = content.ready.unwrap_or_default();
    if shown.ready != Some(ready) {
        set("readyToUse", ready.into());
        progress.ready = ready;
    }
    // A ready snapshot shows no error, whatever the content still has.
    let error = content.error.filter(|_| !ready);
    if !is_same(shown.error, error) {
        set("error", error.map_or(Value::Null, written));
    }
    (change, progress)
}

/// Changes these fields of the status, if there are any.
pub(super) fn show(of: &Head<'_>, change: Map<String, Value>, progress: Progress) -> Flow {
    if change.is_empty() {
        return Ok(());
    }
    let body = patch(of.version, change.into());
    patch_status(Purpose::Status(progress), of.object(), body)
}

/// The patch that writes a failure, unless the status shows it or the complaint leaves the status.
pub(super) fn complaint(shown: &Head<'_>, complaint: &Complaint, now: Timestamp) -> Option<Value> {
    let message = shown.error.and_then(|error| error.message.as_deref());
    let reported = message.is_some_and(|message| alike(message, &complaint.message));
    let unready = match complaint.record {
        Record::Nothing => return None,
        Record::Error => false,
        Record::Unready => shown.ready != Some(false),
    };
    if reported && !unready {
        return None;
    }
    let error = || json!({"time": seconds(now), "message": complaint.message});
    let change = json!({
        "error": (!reported).then(error),
        "readyToUse": unready.then_some(false),
    });
    Some(patch(shown.version, present(change)))
}

/// Whether two failures differ at most in ids and times of their texts.
fn is_same(one: Option<&Failure>, other: Option<&Failure>) -> bool {
    let message = |of: &Failure| of.message.clone().unwrap_or_default();
    match (one.map(message), other.map(message)) {
        (Some(one), Some(other)) => alike(&one, &other),
        (one, other) => one == other,
    }
}

/// The patch of the status, only if the object is still at this version.
pub(super) fn patch(version: &str, change: Value) -> Value {
    json!({"metadata": {"resourceVersion": version}, "status": change})
}

fn written(error: &Failure) -> Value {
    let fields = [("message", &error.message), ("time", &error.time)];
    let fields = fields.into_iter().filter_map(|(name, text)| {
        let text = text.as_deref()?;
        Some((name.to_owned(), Value::from(text)))
    });
    fields.collect::<Map<_, _>>().into()
}

/// Formats a time in nanoseconds since 1970.
pub(super) fn time(nanoseconds: i64) -> Option<String> {
    let time = Timestamp::from_nanosecond(nanoseconds.into()).ok()?;
    Some(seconds(time))
}

/// Formats a time as the API server does.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
