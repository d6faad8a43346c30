//! What a VolumeSnapshot shows of its content.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sidecar::quantity::Quantity;

use crate::model::{Content, ContentStatus, Failure, Snapshot, SnapshotStatus};
use crate::plan::complaint::{Complaint, Record};
use crate::plan::view::Progress;

/// The patch after which `snapshot` shows what `content` does, and what that shows for the first
/// time; `None` if it does already.
pub(super) fn follow(snapshot: &Snapshot, content: &Content) -> Option<(Value, Progress)> {
    let (nothing, blank) = (SnapshotStatus::default(), ContentStatus::default());
    let shown = snapshot.status.as_deref().unwrap_or(&nothing);
    let status = content.status.as_deref().unwrap_or(&blank);
    let mut change = Map::new();
    let mut progress = Progress::default();
    let mut set = |field: &str, value: Value| change.insert(field.to_owned(), value);
    if snapshot.bound().is_none() {
        set("boundVolumeSnapshotContentName", (&*content.name).into());
    }
    if shown.creation_time.is_none()
        && let Some(time) = status.creation_time.and_then(time)
    {
        set("creationTime", time.into());
        progress.created = true;
    }
    let ready = status.ready.unwrap_or_default();
    if shown.ready != Some(ready) {
        set("readyToUse", ready.into());
        progress.ready = ready;
    }
    if let Some(size) = status.restore_size.filter(|size| is_larger(*size, shown)) {
        let quantity = Quantity::from_bytes(size).to_string();
        set("restoreSize", quantity.into());
    }
    // What can be used has no error, whatever the content still says.
    let error = status.error.as_ref().filter(|_| !ready);
    if shown.error.as_ref() != error {
        set("error", error.map_or(Value::Null, written));
    }
    (!change.is_empty()).then(|| (patch(snapshot, change), progress))
}

/// The patch that writes a failure, unless it is written already or not to be.
#[must_use]
pub fn complaint(snapshot: &Snapshot, complaint: &Complaint, now: Timestamp) -> Option<Value> {
    let status = snapshot.status.as_deref();
    let message = status.and_then(|status| status.error.as_ref()?.message.as_deref());
    let told = message == Some(&*complaint.message);
    let unready = match complaint.record {
        Record::Nothing => return None,
        Record::Error => false,
        Record::Unready => status.and_then(|status| status.ready) != Some(false),
    };
    if told && !unready {
        return None;
    }
    let mut change = Map::new();
    if !told {
        let error = json!({"time": seconds(now), "message": complaint.message});
        change.insert("error".to_owned(), error);
    }
    if unready {
        change.insert("readyToUse".to_owned(), false.into());
    }
    Some(patch(snapshot, change))
}

fn patch(snapshot: &Snapshot, change: Map<String, Value>) -> Value {
    json!({"metadata": {"resourceVersion": &*snapshot.version}, "status": change})
}

/// A size is never taken back or changed: claims are restored with at least that much.
fn is_larger(size: i64, shown: &SnapshotStatus) -> bool {
    match shown.restore_size.as_deref() {
        None => size >= 0,
        Some(text) => size > 0 && text.parse().is_ok_and(Quantity::is_zero),
    }
}

fn written(error: &Failure) -> Value {
    let fields = [("message", &error.message), ("time", &error.time)];
    let fields = fields.into_iter().filter_map(|(name, text)| {
        let text = text.as_deref()?;
        Some((name.to_owned(), Value::from(text)))
    });
    fields.collect::<Map<_, _>>().into()
}

fn time(nanoseconds: i64) -> Option<String> {
    let time = Timestamp::from_nanosecond(nanoseconds.into()).ok()?;
    Some(seconds(time))
}

/// As the API server writes times.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
