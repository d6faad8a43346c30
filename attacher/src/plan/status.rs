//! Bodies of patches on a VolumeAttachment: always the smallest difference.
//!
//! API clients and audit logs see these bodies, so tests compare them byte for byte with
//! upstream's; as sent, they also carry the object's UID. All are merge patches
//! (`application/merge-patch+json`); the attacher has no permission to update whole objects.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sidecar::text::truncated;
use sidecar::visible::visible;

use super::Driver;
use crate::keys::{MAX_ERROR_MESSAGE, NODE_ID_ANNOTATION};
use crate::model::{Attachment, Pairs, VolumeError};

/// An error field of the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorField {
    /// `status.attachError`.
    Attach,
    /// `status.detachError`.
    Detach,
}

impl ErrorField {
    fn name(self) -> &'static str {
        match self {
            Self::Attach => "attachError",
            Self::Detach => "detachError",
        }
    }

    fn of(self, attachment: &Attachment) -> Option<&VolumeError> {
        match self {
            Self::Attach => attachment.attach_error.as_deref(),
            Self::Detach => attachment.detach_error.as_deref(),
        }
    }
}

/// Patch that adds the finalizer and the node id before the first publish call; `None` if both are
/// present.
#[must_use]
pub fn prepare(attachment: &Attachment, node_id: &str, driver: &Driver) -> Option<Value> {
    let mut metadata = Map::new();
    if attachment.node_id.as_deref() != Some(node_id) {
        metadata.insert("annotations".into(), json!({ NODE_ID_ANNOTATION: node_id }));
    }
    if !attachment.has_finalizer(&driver.finalizer) {
        let kept = attachment.finalizers.iter().map(|held| &**held);
        let all: Vec<&str> = kept.chain([&*driver.finalizer]).collect();
        metadata.insert("finalizers".into(), json!(all));
    }
    (!metadata.is_empty()).then(|| json!({ "metadata": metadata }))
}

/// Patch that removes the finalizer after the unpublish call; `None` if it is absent.
#[must_use]
pub fn release(attachment: &Attachment, driver: &Driver) -> Option<Value> {
    if !attachment.has_finalizer(&driver.finalizer) {
        return None;
    }
    let kept: Vec<&str> = attachment
        .finalizers
        .iter()
        .map(|held| &**held)
        .filter(|held| *held != driver.finalizer)
        .collect();
    Some(if kept.is_empty() {
        json!({ "metadata": { "finalizers": null } })
    } else {
        json!({ "metadata": { "finalizers": kept } })
    })
}

/// Patch of the status after a successful publish call that returned `context`. The body is `{}` if
/// nothing changes, as after a volume was attached again.
#[must_use]
pub fn attached(attachment: &Attachment, context: &BTreeMap<String, String>) -> Value {
    let mut status = Map::new();
    if !attachment.attached {
        status.insert("attached".into(), Value::Bool(true));
    }
    if let Some(metadata) = map_difference(&attachment.metadata, context) {
        status.insert("attachmentMetadata".into(), metadata);
    }
    if attachment.attach_error.is_some() {
        status.insert("attachError".into(), Value::Null);
    }
    body(status)
}

/// Patch of the status after a successful unpublish call. As in upstream, `attachError` stays.
#[must_use]
pub fn detached(attachment: &Attachment) -> Value {
    let mut status = Map::new();
    if attachment.attached {
        status.insert("attached".into(), Value::Bool(false));
    }
    if !attachment.metadata.is_empty() {
        status.insert("attachmentMetadata".into(), Value::Null);
    }
    if attachment.detach_error.is_some() {
        status.insert("detachError".into(), Value::Null);
    }
    body(status)
}

/// Patch of the status that records a failure at `time` (RFC 3339, whole seconds, UTC).
#[must_use]
pub fn failed(
    attachment: &Attachment,
    field: ErrorField,
    message: &str,
    code: Option<i32>,
    time: &str,
) -> Value {
    let message = visible(message);
    // The API server rejects longer messages; the reason would then appear in the log only.
    let message = truncated(&message, MAX_ERROR_MESSAGE);
    let before = field.of(attachment);
    let mut error = Map::new();
    if before.and_then(|error| error.message.as_deref()) != Some(message) {
        error.insert("message".into(), message.into());
    }
    if before.and_then(|error| error.time.as_deref()) != Some(time) {
        error.insert("time".into(), time.into());
    }
    if before.and_then(|error| error.code) != code {
        error.insert("errorCode".into(), code.map_or(Value::Null, Value::from));
    }
    let mut status = Map::new();
    if !error.is_empty() {
        status.insert(field.name().into(), Value::Object(error));
    }
    body(status)
}

/// `{"status": …}`, or `{}` if `status` is empty.
fn body(status: Map<String, Value>) -> Value {
    if status.is_empty() {
        json!({})
    } else {
        json!({ "status": status })
    }
}

/// Merge patch that turns the map `before` into `after`; `None` if they are equal.
fn map_difference(before: &Pairs, after: &BTreeMap<String, String>) -> Option<Value> {
    let before: BTreeMap<&str, &str> = before.iter().collect();
    let gone = before
        .keys()
        .filter(|key| !after.contains_key(**key))
        .map(|key| ((*key).to_owned(), Value::Null));
    let changed = after
        .iter()
        .filter(|(key, value)| before.get(key.as_str()) != Some(&value.as_str()))
        .map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    let difference: Map<String, Value> = gone.chain(changed).collect();
    if difference.is_empty() {
        return None;
    }
    Some(if after.is_empty() {
        Value::Null
    } else {
        Value::Object(difference)
    })
}
