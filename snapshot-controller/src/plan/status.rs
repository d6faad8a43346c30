//! Makes the status of a VolumeSnapshot or VolumeGroupSnapshot follow its content's.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sidecar::alike::alike;

use super::complaint::{Complaint, Record};
use super::view::Progress;
use crate::model::{Failure, Text};

/// The fields of a status that are compared.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// `metadata.resourceVersion` of the object.
    pub version: &'a Text,
    /// Whether the status names a content.
    pub is_bound: bool,
    /// Whether the status has a creation time.
    pub is_taken: bool,
    /// `readyToUse`
    pub ready: Option<bool>,
    /// `error`
    pub error: Option<&'a Failure>,
}

/// The wanted fields of a status.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// The field for the content's name, and the name.
    pub bound: (&'static str, &'a Text),
    /// `creationTime`
    pub creation_time: Option<String>,
    /// `readyToUse`
    pub ready: bool,
    /// `error`
    pub error: Option<&'a Failure>,
}

/// The fields that must change, and the progress that they show for the first time.
#[must_use]
pub fn change(shown: &Shown<'_>, wanted: Wanted<'_>) -> (Map<String, Value>, Progress) {
    let mut change = Map::new();
    let mut progress = Progress::default();
    let mut set = |field: &str, value: Value| change.insert(field.to_owned(), value);
    if !shown.is_bound {
        let (field, name) = wanted.bound;
        set(field, (&**name).into());
    }
    if !shown.is_taken
        && let Some(time) = wanted.creation_time
    {
        set("creationTime", time.into());
        progress.created = true;
    }
    if shown.ready != Some(wanted.ready) {
        set("readyToUse", wanted.ready.into());
        progress.ready = wanted.ready;
    }
    // A ready snapshot shows no error, whatever the content still has.
    let error = wanted.error.filter(|_| !wanted.ready);
    if !is_same(shown.error, error) {
        set("error", error.map_or(Value::Null, written));
    }
    (change, progress)
}

/// The patch that writes a failure, unless the status shows it or the complaint leaves the status.
#[must_use]
pub fn complaint(shown: &Shown<'_>, complaint: &Complaint, now: Timestamp) -> Option<Value> {
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
    let mut change = Map::new();
    if !reported {
        let error = json!({"time": seconds(now), "message": complaint.message});
        change.insert("error".to_owned(), error);
    }
    if unready {
        change.insert("readyToUse".to_owned(), false.into());
    }
    Some(patch(shown.version, change))
}

/// Whether two failures differ at most in ids and times of their texts.
fn is_same(one: Option<&Failure>, other: Option<&Failure>) -> bool {
    fn message(of: &Failure) -> &str {
        of.message.as_deref().unwrap_or_default()
    }
    match (one, other) {
        (Some(one), Some(other)) => alike(message(one), message(other)),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// The patch of the status, only if the object is still at this version.
#[must_use]
pub fn patch(version: &str, change: Map<String, Value>) -> Value {
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
#[must_use]
pub fn time(nanoseconds: i64) -> Option<String> {
    let time = Timestamp::from_nanosecond(nanoseconds.into()).ok()?;
    Some(seconds(time))
}

/// Formats a time as the API server does.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
