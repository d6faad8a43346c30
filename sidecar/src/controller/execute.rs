//! Executes requests.
//!
//! Every write goes through the cache of its object: whatever the server answers, no reader of the cache sees an
//! older object than this process has written.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::sleep;

use super::call::Calls;
use super::request::{Body, Object as _, Reply, Request, Requests, Write};
use crate::kube::api::{Api, ApiError, key};
use crate::kube::cache::OwnWrites;
use crate::kube::edit::{Applied, Edit};
use crate::kube::key::Key;
use crate::kube::patch::{collection, encode};
use crate::kube::reflect::Resource;
use crate::refusal::Refusal;

/// The clients and caches with which the requests of a controller are executed.
pub trait Executor<R: Requests>: Sync {
    /// The API server.
    fn api(&self) -> &Api;

    /// The kind of an object, and the cache of such objects, if there is one.
    fn kind(&self, object: &R::Object) -> (&Resource, Option<&dyn OwnWrites>);

    /// The part of a read or written object that an attempt sees in addition to the caches.
    ///
    /// # Errors
    /// The JSON is no such object.
    fn found(&self, object: &R::Object, json: &str) -> Result<R::Found, ApiError>;

    /// Calls the driver with the call's own timeout.
    fn call(
        &self,
        call: R::Calls,
    ) -> impl Future<Output = (<R::Calls as Calls>::Called, Duration)> + Send;

    /// Records an event for users.
    fn record(&self, event: &R::Event);
}

/// Executes `request`.
pub async fn execute<R: Requests>(with: &impl Executor<R>, request: Request<R>) -> Reply<R> {
    match request {
        Request::Get(object) => {
            let found = match object.selector() {
                Some(selector) => list(with, &object, selector).await,
                None => about(with, &object, None).await,
            };
            Reply::Get(object, found)
        }
        Request::Write(write) => {
            let found = about(with, &write.object, Some(&write)).await;
            Reply::Write(write, found)
        }
        Request::Secret(secret) => {
            let values = with.api().secret_texts(secret.as_ref()).await;
            Reply::Secret(secret, values)
        }
        Request::Call(call) => {
            let (called, took) = with.call(call).await;
            Reply::Call(called, took)
        }
        Request::Event(event) => {
            with.record(&event);
            Reply::Event(event)
        }
    }
}

/// Reads the selected objects of one namespace or of all.
async fn list<R: Requests>(
    with: &impl Executor<R>,
    of: &R::Object,
    (parameter, value): (&str, Cow<'_, str>),
) -> Result<R::Found, ApiError> {
    let namespace = Some(of.key()).filter(|namespace| !namespace.is_empty());
    let mut path = collection(with.kind(of).0, namespace);
    path.push_str(&format!("?{parameter}="));
    encode(&mut path, &value);
    let json = with.api().read(&path).await?;
    with.found(of, &json)
}

/// Reads or writes one object.
async fn about<R: Requests>(
    with: &impl Executor<R>,
    object: &R::Object,
    write: Option<&Write<R>>,
) -> Result<R::Found, ApiError> {
    let (resource, cache) = with.kind(object);
    let key = match object.key().split_once('/') {
        Some((namespace, name)) => key(Some(namespace), name),
        None => key(None, object.key()),
    }?;
    let own = cache.map(|cache| cache.begin(&key));
    let json = match write {
        None => with.api().get(resource, &key).await?,
        Some(write) => send(with.api(), resource, &key, write).await?,
    };
    if let Some(own) = own {
        own.answered(&json)?;
    }
    with.found(object, &json)
}

async fn send<R: Requests>(
    api: &Api,
    resource: &Resource,
    key: &Key,
    Write { uid, body, .. }: &Write<R>,
) -> Result<String, ApiError> {
    match body {
        Body::Patch(part, patch) => {
            let sent = match uid {
                Some(uid) => {
                    api.patch(resource, key, *part, &patch.clone().only_for(uid))
                        .await
                }
                None => api.patch(resource, key, *part, patch).await,
            };
            Ok(Box::<str>::from(sent?).into())
        }
        Body::Create(object) => api.create(resource, key.namespace(), object).await,
        Body::Replace(json) => {
            let object = RawValue::from_string(json.to_string());
            let object = object.map_err(|error| ApiError::local(error.to_string()))?;
            api.update(resource, key, &object).await
        }
        Body::Edit(change) => {
            for pause in change.pauses {
                match edit(api, resource, key, (change, uid.as_deref())).await {
                    Err(error) if error.is_conflict() => sleep(*pause).await,
                    result => return result,
                }
            }
            edit(api, resource, key, (change, uid.as_deref())).await
        }
        Body::Delete(version) => {
            let json = match (uid, version) {
                (Some(uid), Some(version)) => {
                    api.delete_unchanged(resource, key, (uid, version)).await?
                }
                (uid, _) => api.delete(resource, key, uid.as_deref()).await?,
            };
            // An object without finalizers is gone at once; the answer is then a `Status`.
            if is_object(&json, key.name()) {
                Ok(json)
            } else {
                Err(ApiError::gone())
            }
        }
    }
}

/// The object after the edit. It may be new to this process even if nothing had to be written.
async fn edit(
    api: &Api,
    resource: &Resource,
    key: &Key,
    (edit, uid): (&Edit, Option<&str>),
) -> Result<String, ApiError> {
    let read = api.get(resource, key).await?;
    let object: Result<Value, _> = serde_json::from_str(&read);
    let mut object = object.map_err(|error| ApiError::unreadable(&error))?;
    match edit.apply(uid, &mut object) {
        Applied::Changed => api.update(resource, key, &object).await,
        Applied::Unchanged => Ok(read),
        Applied::Another => Err(ApiError {
            message: format!("{key} is another object by now"),
            refusal: Refusal::NotFound,
        }),
    }
}

/// Whether the answer is the object of this name.
fn is_object(json: &str, name: &str) -> bool {
    let object: Result<Value, _> = serde_json::from_str(json);
    object.is_ok_and(|object| {
        object.get("kind").and_then(Value::as_str) != Some("Status")
            && object.pointer("/metadata/name").and_then(Value::as_str) == Some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_delete_is_the_object_or_none() {
        for (json, expected) in [
            (
                r#"{"kind":"VolumeSnapshotContent","metadata":{"name":"v"}}"#,
                true,
            ),
            (
                r#"{"kind":"VolumeSnapshotContent","metadata":{"name":"w"}}"#,
                false,
            ),
            (
                r#"{"kind":"Status","metadata":{},"status":"Success","details":{"name":"v"}}"#,
                false,
            ),
            ("", false),
        ] {
            assert_eq!(is_object(json, "v"), expected, "{json}");
        }
    }
}
