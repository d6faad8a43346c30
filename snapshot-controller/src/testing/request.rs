//! What requests do to the model API server, and how rows show them.

use std::time::Instant;

use jiff::Timestamp;
use serde_json::Value;
use sidecar::controller::reactor::Now;
use sidecar::snapshot as words;

use super::server::{Kind, Part, Server, finalizers, refused};
use crate::model::Text;
use crate::plan::step::{ApiError, Object, Step};

/// The first moment of the tests, as everything here takes no time.
pub(crate) fn now() -> Now {
    Now {
        instant: Instant::now(),
        timestamp: "2026-01-02T03:04:05Z".parse::<Timestamp>().unwrap(),
    }
}

/// What a request does.
pub(crate) fn apply(server: &mut Server, step: &Step) -> Result<Text, ApiError> {
    let result = match step {
        Step::Read(object) => {
            let (kind, key) = kind_and_key(object);
            server.read(kind, key)
        }
        Step::PatchSnapshot(of, patch) => {
            server.patch(Kind::Snapshot, &of.key(), Part::Main, patch)
        }
        Step::PatchStatus(of, patch) => {
            server.patch(Kind::Snapshot, &of.key(), Part::Status, patch)
        }
        Step::CreateContent(_, content) => server.create(Kind::Content, content.clone()),
        Step::PatchContent(of, patch) => server.patch(Kind::Content, &of.name, Part::Main, patch),
        Step::DeleteContent(of) => {
            server.delete(Kind::Content, &of.name, Some((&of.uid, &of.version)))
        }
        Step::UpdateClaim(key, json) => server.put(Kind::Claim, key, json),
    };
    result.map_err(refused)
}

pub(crate) fn kind_and_key(object: &Object) -> (Kind, &Text) {
    match object {
        Object::Snapshot(key) => (Kind::Snapshot, key),
        Object::Content(name) => (Kind::Content, name),
        Object::Claim(key) => (Kind::Claim, key),
        Object::Volume(name) => (Kind::Volume, name),
    }
}

/// A request as a row shows it: versions left out, long words short.
pub(crate) fn line(step: &Step) -> String {
    let patch = |what: &str, key: &str, patch: &Value| {
        let mut patch = patch.clone();
        if let Some(metadata) = patch["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
            metadata.remove("uid");
            if metadata.is_empty() {
                patch.as_object_mut().unwrap().remove("metadata");
            }
        }
        format!("PATCH {what} {key} {patch}")
    };
    let line = match step {
        Step::Read(object) => {
            let (kind, key) = kind_and_key(object);
            format!("GET {kind:?} {key}")
                .to_lowercase()
                .replacen("get", "GET", 1)
        }
        Step::PatchSnapshot(of, body) => patch("snapshot", &of.key(), body),
        Step::PatchStatus(of, body) => patch("snapshot/status", &of.key(), body),
        Step::CreateContent(name, body) => format!("POST content {name} {body}"),
        Step::PatchContent(of, body) => patch("content", &of.name, body),
        Step::DeleteContent(of) => format!("DELETE content {}", of.name),
        Step::UpdateClaim(key, json) => {
            let claim: Value = serde_json::from_str(json).unwrap();
            let held = finalizers(&claim).join(" ");
            format!("PUT claim {key} [{held}]")
        }
    };
    let short = [
        (words::SNAPSHOT_IN_USE, "F-use"),
        (words::SNAPSHOT_AS_SOURCE, "F-src"),
        (words::SNAPSHOT_BOUND, "F-bound"),
        (words::SNAPSHOT_IN_GROUP, "F-group"),
        (words::CONTENT_BOUND, "F-content"),
        (words::CLAIM_AS_SOURCE, "F-pvc"),
        (words::BEING_DELETED, "bd"),
        (words::DELETION_SECRET_NAMESPACE, "dsns"),
        (words::DELETION_SECRET_NAME, "dsn"),
        ("kubernetes.io/pvc-protection", "K"),
    ];
    let short = short.into_iter();
    short.fold(line, |line, (long, short)| line.replace(long, short))
}
