//! Executes requests on the model API server, and formats them for the tests' rows.

use std::time::Instant;

use jiff::Timestamp;
use serde_json::Value;
use sidecar::controller::reactor::Now;
use sidecar::controller::request::{Body, Part, Patch};
use sidecar::snapshot as words;

use super::server::{Kind, Server, finalizers, refused};
use crate::model::Text;
use crate::plan::request::{ApiError, Object, Reply, Request, Write};

/// The time of all tests; work takes none.
pub(crate) fn now() -> Now {
    Now {
        instant: Instant::now(),
        timestamp: "2026-01-02T03:04:05Z".parse::<Timestamp>().unwrap(),
    }
}

/// Executes a request.
pub(crate) fn apply(server: &mut Server, request: &Request) -> Result<Text, ApiError> {
    let result = match request {
        Request::Get(Object::Claims(namespace, selector)) => {
            Ok(server.select(Kind::Claim, namespace, selector))
        }
        Request::Get(object) => {
            let (kind, key) = kind_and_key(object);
            server.read(kind, key)
        }
        Request::Write(write) => {
            let (kind, key) = kind_and_key(&write.object);
            server.write(kind, key, write.uid.as_deref(), &write.body)
        }
        Request::Secret(_) | Request::Call(_) | Request::Event(_) => unreachable!("there is none"),
    };
    result.map_err(refused)
}

/// The reply to a request with this result.
pub(crate) fn answered(request: Request, came: Result<Text, ApiError>) -> Reply {
    match (request, came) {
        (Request::Get(of @ (Object::Claim(_) | Object::Claims(..))), Ok(json)) => {
            Reply::Get(of, Ok(Some(json)))
        }
        (Request::Get(of), Ok(_)) => Reply::Get(of, Ok(None)),
        (Request::Write(write), Ok(_)) => Reply::Write(write, Ok(None)),
        (request, Err(error)) => request.refused(error),
    }
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

/// A request as rows show it: without versions, with long words abbreviated.
pub(crate) fn line(request: &Request) -> String {
    let what = |of: &Object| {
        let (kind, key) = kind_and_key(of);
        format!("{} {key}", format!("{kind:?}").to_lowercase())
    };
    let line = match request {
        Request::Get(Object::Claims(namespace, selector)) => {
            format!("LIST claim {namespace} {selector}")
        }
        Request::Get(of) => format!("GET {}", what(of)),
        Request::Write(Write { object, body, .. }) => {
            let what = what(object);
            match body {
                Body::Patch(Part::Main, body) => format!("PATCH {what} {}", shown(body)),
                Body::Patch(Part::Status, body) => {
                    let what = what.replacen(' ', "/status ", 1);
                    format!("PATCH {what} {}", shown(body))
                }
                Body::Create(body) => format!("POST {what} {body}"),
                Body::Delete(_) => format!("DELETE {what}"),
                Body::Edit(edit) => format!("GET and PUT {what} {edit:?}"),
                Body::Replace(json) => {
                    let claim: Value = serde_json::from_str(json).unwrap();
                    format!("PUT {what} [{}]", finalizers(&claim).join(" "))
                }
            }
        }
        Request::Secret(_) | Request::Call(_) | Request::Event(_) => unreachable!("there is none"),
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

/// A patch without preconditions on version and UID.
fn shown(patch: &Patch) -> Value {
    let mut patch = patch.body().clone();
    if let Some(metadata) = patch["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
        metadata.remove("uid");
        if metadata.is_empty() {
            patch.as_object_mut().unwrap().remove("metadata");
        }
    }
    patch
}
