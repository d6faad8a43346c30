//! Patches: the way in which the sidecars write to objects that others write too.
//!
//! A PUT would need a verb that the shipped RBAC does not grant, and would write back the contents of a stale cache.
//! The builders are pure; [`send`] is the one function that acts.

use ::kube::Client;
use http::{HeaderValue, Method, Request, header};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::key::Key;
use super::reflect::Resource;
use crate::trace::TRACEPARENT;

/// A patch and its format.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum Patch {
    /// RFC 7386: objects merge, anything else replaces, `null` removes.
    Merge(Value),
    /// RFC 6902: a list of operations; all of them apply or none.
    Json(Value),
    /// Kubernetes' own: like a merge, but lists merge by the keys that their type declares. Built-in types only.
    Strategic(Value),
}

impl Patch {
    /// The `Content-Type` of the format.
    pub fn content_type(&self) -> &'static str {
        match self {
            Self::Merge(_) => "application/merge-patch+json",
            Self::Json(_) => "application/json-patch+json",
            Self::Strategic(_) => "application/strategic-merge-patch+json",
        }
    }

    /// The same patch for the object with this UID alone: the API server refuses it (422) if another object has taken
    /// the name, which the sender of a patch may not have noticed yet.
    #[must_use]
    pub fn only_for(mut self, uid: &str) -> Self {
        match &mut self {
            Self::Merge(body) | Self::Strategic(body) => {
                if let Some(fields) = body.as_object_mut() {
                    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
                    if let Some(metadata) = metadata.as_object_mut() {
                        metadata.insert("uid".to_owned(), uid.into());
                    }
                }
            }
            Self::Json(operations) => {
                if let Some(list) = operations.as_array_mut() {
                    let test = json!({"op": "test", "path": "/metadata/uid", "value": uid});
                    list.insert(0, test);
                }
            }
        }
        self
    }

    /// The request's body.
    pub fn body(&self) -> &Value {
        match self {
            Self::Merge(body) | Self::Json(body) | Self::Strategic(body) => body,
        }
    }
}

/// Adds a finalizer to the list as it was read; `None` if it is already there.
///
/// Several writers share the list, so a list that was absent or empty is set only if it still is (`test`: the loser of
/// a race gets 422), while a finalizer is appended to a list with entries in whatever state it is by then.
pub fn add_finalizer<S: AsRef<str>>(read: Option<&[S]>, finalizer: &str) -> Option<Patch> {
    const PATH: &str = "/metadata/finalizers";
    let operations = match read {
        Some(list) if list.iter().any(|entry| entry.as_ref() == finalizer) => return None,
        // The API server treats a missing path as null here, unlike the RFC.
        None => json!([
            {"op": "test", "path": PATH, "value": null},
            {"op": "add", "path": PATH, "value": [finalizer]},
        ]),
        Some([]) => json!([
            {"op": "test", "path": PATH, "value": []},
            {"op": "replace", "path": PATH, "value": [finalizer]},
        ]),
        Some(_) => json!([{"op": "add", "path": "/metadata/finalizers/-", "value": finalizer}]),
    };
    Some(Patch::Json(operations))
}

/// Removes the first entry of a finalizer from the list as it was read; `None` if the list lacks it.
///
/// If the entry has moved meanwhile, the server answers 422 and removes nothing.
pub fn remove_finalizer<S: AsRef<str>>(read: &[S], finalizer: &str) -> Option<Patch> {
    let index = read.iter().position(|entry| entry.as_ref() == finalizer)?;
    let path = format!("/metadata/finalizers/{index}");
    Some(Patch::Json(json!([
        {"op": "test", "path": path, "value": finalizer},
        {"op": "remove", "path": path},
    ])))
}

/// The list of finalizers for a merge patch: `null` if it is empty.
///
/// For objects with at most one writer of finalizers; the whole list is replaced.
pub fn finalizer_list<S: AsRef<str>>(list: &[S]) -> Value {
    if list.is_empty() {
        return Value::Null;
    }
    list.iter()
        .map(|entry| Value::from(entry.as_ref()))
        .collect()
}

/// The smallest merge patch that turns `before` into `after`; `{}` if they are equal.
///
/// A field that is `null` or missing in `after` is removed. Lists are replaced as a whole.
pub fn diff(before: &Value, after: &Value) -> Value {
    let nothing = Map::new();
    let old = before.as_object().unwrap_or(&nothing);
    let new = after.as_object().unwrap_or(&nothing);
    let mut patch = Map::new();
    for (name, value) in new.iter().filter(|(_, value)| !value.is_null()) {
        match old.get(name) {
            Some(had) if had == value => {}
            Some(had) if had.is_object() && value.is_object() => {
                let inner = diff(had, value);
                // The two differ only in nulls, which a merge patch cannot store anyway.
                if inner.as_object().is_some_and(|inner| !inner.is_empty()) {
                    patch.insert(name.clone(), inner);
                }
            }
            Some(_) | None => {
                patch.insert(name.clone(), without_nulls(value));
            }
        }
    }
    let gone = |name: &&String| new.get(*name).is_none_or(Value::is_null);
    for name in old
        .iter()
        .filter(|(_, had)| !had.is_null())
        .map(|(name, _)| name)
    {
        if gone(&name) {
            patch.insert(name.clone(), Value::Null);
        }
    }
    Value::Object(patch)
}

/// Drops nulls: in a merge patch a null means removal, and a new value has nothing to remove.
fn without_nulls(value: &Value) -> Value {
    let Some(fields) = value.as_object() else {
        return value.clone();
    };
    let kept = fields.iter().filter(|(_, field)| !field.is_null());
    kept.map(|(name, field)| (name.clone(), without_nulls(field)))
        .collect()
}

/// The part of an object that a patch applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Everything but the status.
    Main,
    /// `/status`.
    Status,
}

/// Sends a patch and returns the changed object.
///
/// # Errors
/// The server's `Status`, a broken connection, a time limit, or a response that is not `T`.
pub async fn send<T: DeserializeOwned>(
    client: &Client,
    resource: &Resource,
    key: &Key,
    part: Part,
    patch: &Patch,
) -> Result<T, ::kube::Error> {
    send_for(client, resource, key, (part, patch), None).await
}

/// Like [`send`], with the header `traceparent` if there is one.
pub(super) async fn send_for<T: DeserializeOwned>(
    client: &Client,
    resource: &Resource,
    key: &Key,
    (part, patch): (Part, &Patch),
    traced: Option<HeaderValue>,
) -> Result<T, ::kube::Error> {
    let mut request = Request::builder()
        .method(Method::PATCH)
        .uri(path(resource, key, part))
        .header(header::CONTENT_TYPE, patch.content_type())
        .header(header::ACCEPT, "application/json");
    if let Some(header) = traced {
        request = request.header(TRACEPARENT, header);
    }
    let request = request.body(patch.body().to_string().into_bytes());
    let request = request.map_err(::kube::Error::HttpError)?;
    // Decoded here because the client would log the whole response if decoding fails.
    let answer = client.request_text(request).await?;
    serde_json::from_str(&answer).map_err(::kube::Error::SerdeError)
}

/// The path of all objects of a kind, in a namespace for a namespaced kind.
pub fn collection(resource: &Resource, namespace: Option<&str>) -> String {
    let mut path = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    if let Some(namespace) = namespace {
        path.push_str("/namespaces/");
        encode(&mut path, namespace);
    }
    path.push('/');
    path.push_str(resource.plural);
    path
}

/// The path of an object in the API.
pub fn path(resource: &Resource, key: &Key, part: Part) -> String {
    let mut path = collection(resource, key.namespace());
    path.push('/');
    encode(&mut path, key.name());
    if part == Part::Status {
        path.push_str("/status");
    }
    path
}

/// Appends `part` to a path or a query. The server checks names, but an invalid one from elsewhere must not change the
/// path.
pub(crate) fn encode(path: &mut String, part: &str) {
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':') {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests;
