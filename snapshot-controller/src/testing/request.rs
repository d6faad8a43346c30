//! What requests do to the model API server, and how rows show them.

use std::time::Instant;

use jiff::Timestamp;
use serde_json::Value;
use sidecar::controller::reactor::Now;
use sidecar::snapshot as words;

use super::server::{Kind, Part, Server, claims, finalizers, refused};
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
        Step::Read(Object::Claims(namespace, selector)) => Ok(claims(server, namespace, selector)),
        Step::Read(object) => {
            let (kind, key) = kind_and_key(object);
            server.read(kind, key)
        }
        Step::Patch(of, patch) => {
            let (kind, key) = kind_and_key(of);
            server.patch(kind, key, Part::Main, patch)
        }
        Step::PatchStatus(of, patch) => {
            let (kind, key) = kind_and_key(of);
            server.patch(kind, key, Part::Status, patch)
        }
        Step::Create(of, body) => server.create(kind_and_key(of).0, body.clone()),
        Step::Delete(of, exactly) => {
            let (kind, key) = kind_and_key(of);
            server.delete(kind, key, Some((&exactly.uid, &exactly.version)))
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
        Object::Group(key) => (Kind::Group, key),
        Object::GroupContent(name) => (Kind::GroupContent, name),
        Object::Claims(namespace, _) => (Kind::Claim, namespace),
    }
}

/// A request as a row shows it: versions left out, long words short.
pub(crate) fn line(step: &Step) -> String {
    let what = |of: &Object| {
        let (kind, key) = kind_and_key(of);
        (format!("{kind:?}").to_lowercase(), key.clone())
    };
    let patch = |(what, key): (String, Text), part: &str, patch: &Value| {
        let mut patch = patch.clone();
        if let Some(metadata) = patch["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
            metadata.remove("uid");
            if metadata.is_empty() {
                patch.as_object_mut().unwrap().remove("metadata");
            }
        }
        format!("PATCH {what}{part} {key} {patch}")
    };
    let line = match step {
        Step::Read(Object::Claims(namespace, selector)) => {
            format!("LIST claim {namespace} {selector}")
        }
        Step::Read(of) => format!("GET {} {}", what(of).0, what(of).1),
        Step::Patch(of, body) => patch(what(of), "", body),
        Step::PatchStatus(of, body) => patch(what(of), "/status", body),
        Step::Create(of, body) => format!("POST {} {} {body}", what(of).0, what(of).1),
        Step::Delete(of, _) => format!("DELETE {} {}", what(of).0, what(of).1),
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
        (words::GROUP_CONTENT_BOUND, "F-gcontent"),
        (words::GROUP_SNAPSHOT_BOUND, "F-gbound"),
        (words::GROUP_BEING_DELETED, "gbd"),
        (words::GROUP_DELETION_SECRET_NAMESPACE, "gdsns"),
        (words::GROUP_DELETION_SECRET_NAME, "gdsn"),
        (words::GROUP_HANDLE, "gh"),
        (words::BEING_DELETED, "bd"),
        (words::DELETION_SECRET_NAMESPACE, "dsns"),
        (words::DELETION_SECRET_NAME, "dsn"),
        ("kubernetes.io/pvc-protection", "K"),
    ];
    let short = short.into_iter();
    short.fold(line, |line, (long, short)| line.replace(long, short))
}
