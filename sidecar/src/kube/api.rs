//! Requests to the API server about single objects, and the meaning of their failures.
//!
//! Separate from the watches. Responses are returned as text, from which the caller reads what it
//! needs; the bodies of Secrets never reach a decoder that might quote them in an error.

use std::collections::BTreeMap;
use std::fmt;

use ::kube::Client;
use http::{Method, Request, header};
use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::key::Key;
use super::patch::{self, Part, Patch};
use super::reflect::Resource;
use crate::error::Chain;
use crate::secret::SecretRef;
use crate::trace;

pub use crate::refusal::{ApiError, Refusal};

/// Why the values of a Secret cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretError {
    /// The Secret could not be read.
    Unread(ApiError),
    /// A value is not text, so no CSI request can carry it.
    NotText,
}

const SECRETS: Resource = Resource::new("", "v1", "secrets");

impl From<&::kube::Error> for ApiError {
    fn from(error: &::kube::Error) -> Self {
        if let ::kube::Error::Api(status) = error {
            return Self {
                message: status.message.clone(),
                refusal: Refusal::of(status.code, &status.reason),
            };
        }
        Self {
            message: Chain(error).to_string(),
            refusal: Refusal::Unknown,
        }
    }
}

/// Makes the key of an object.
///
/// # Errors
/// No object can have this name.
pub fn key(namespace: Option<&str>, name: &str) -> Result<Key, ApiError> {
    let key = Key::new(namespace, name);
    key.ok_or_else(|| ApiError::local(format!("{name:?} is no object name")))
}

/// Requests about single objects to the API server.
#[derive(Clone)]
pub struct Api {
    client: Client,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").finish_non_exhaustive()
    }
}

impl Api {
    /// Sends requests through `client`, which limits their rate and duration.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// GETs an object's JSON from the API server.
    ///
    /// # Errors
    /// The object does not exist, or the request failed.
    pub async fn get(&self, resource: &Resource, key: &Key) -> Result<String, ApiError> {
        let path = patch::path(resource, key, Part::Main);
        self.send(Method::GET, path, None).await
    }

    /// Patches an object and returns its new JSON.
    ///
    /// # Errors
    /// The server refused, or the outcome is unknown.
    pub async fn patch(
        &self,
        resource: &Resource,
        key: &Key,
        part: Part,
        patch: &Patch,
    ) -> Result<Box<RawValue>, ApiError> {
        let asked = trace::request(&Method::PATCH, &patch::path(resource, key, part));
        let traced = asked.as_ref().and_then(trace::Asked::header);
        let sent = patch::send_for(&self.client, resource, key, (part, patch), traced);
        let answer = sent.await.map_err(|error| ApiError::from(&error));
        if let Some(asked) = asked {
            asked.requested(&answer, true);
        }
        answer
    }

    /// Replaces an object and returns its new JSON. With a `resourceVersion` in `body` only if the
    /// object has not changed since.
    ///
    /// # Errors
    /// The server refused, or the outcome is unknown.
    pub async fn update(
        &self,
        resource: &Resource,
        key: &Key,
        body: &impl Serialize,
    ) -> Result<String, ApiError> {
        let path = patch::path(resource, key, Part::Main);
        self.send(Method::PUT, path, Some(text(body)?)).await
    }

    /// Creates an object, in a namespace if it has one, and returns its JSON.
    ///
    /// # Errors
    /// The server refused, or the outcome is unknown.
    pub async fn create(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        body: &impl Serialize,
    ) -> Result<String, ApiError> {
        let path = patch::collection(resource, namespace);
        self.send(Method::POST, path, Some(text(body)?)).await
    }

    /// Deletes an object, with `uid` only if it is still that one. Returns the object if finalizers
    /// keep it, or else the server's response.
    ///
    /// # Errors
    /// The server refused, or the outcome is unknown.
    pub async fn delete(
        &self,
        resource: &Resource,
        key: &Key,
        uid: Option<&str>,
    ) -> Result<String, ApiError> {
        let only = uid.map(|uid| json!({"uid": uid}));
        self.delete_if(resource, key, only).await
    }

    /// Deletes an object if it has not changed since it was read with this UID and version. Returns the
    /// same as [`delete`](Self::delete).
    ///
    /// # Errors
    /// A conflict if the object has changed; the server refused, or the outcome is unknown.
    pub async fn delete_unchanged(
        &self,
        resource: &Resource,
        key: &Key,
        (uid, version): (&str, &str),
    ) -> Result<String, ApiError> {
        let only = json!({"uid": uid, "resourceVersion": version});
        self.delete_if(resource, key, Some(only)).await
    }

    async fn delete_if(
        &self,
        resource: &Resource,
        key: &Key,
        only: Option<Value>,
    ) -> Result<String, ApiError> {
        let path = patch::path(resource, key, Part::Main);
        let options = only.map(|only| {
            let options = json!({
                "kind": "DeleteOptions",
                "apiVersion": "v1",
                "preconditions": only,
            });
            options.to_string().into_bytes()
        });
        self.send(Method::DELETE, path, options).await
    }

    /// GETs any path, such as that of a discovery document.
    ///
    /// # Errors
    /// The server refused or did not answer.
    pub async fn read(&self, path: &str) -> Result<String, ApiError> {
        self.send(Method::GET, path.to_owned(), None).await
    }

    /// The values of a Secret.
    ///
    /// # Errors
    /// The Secret does not exist, or the request failed.
    pub async fn secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<BTreeMap<String, Vec<u8>>, ApiError> {
        let key = Key::new(Some(namespace), name)
            .ok_or_else(|| ApiError::local("not a valid namespace and name"))?;
        read_secret(&self.get(&SECRETS, &key).await?)
    }

    /// The values of a Secret as texts, the form that CSI requests carry.
    ///
    /// # Errors
    /// The Secret does not exist, the request failed, or a value is not text.
    pub async fn secret_texts(
        &self,
        reference: &SecretRef,
    ) -> Result<BTreeMap<String, String>, SecretError> {
        let values = self.secret(&reference.namespace, &reference.name).await;
        texts(values.map_err(SecretError::Unread)?)
    }

    async fn send(
        &self,
        method: Method,
        path: String,
        body: Option<Vec<u8>>,
    ) -> Result<String, ApiError> {
        let asked = trace::request(&method, &path);
        let writes = method != Method::GET;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::ACCEPT, "application/json");
        if let Some(header) = asked.as_ref().and_then(trace::Asked::header) {
            request = request.header(trace::TRACEPARENT, header);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(body.unwrap_or_default())
            .map_err(::kube::Error::HttpError);
        let request = request.map_err(|error| ApiError::from(&error))?;
        let answer = self.client.request_text(request).await;
        let answer = answer.map_err(|error| ApiError::from(&error));
        if let Some(asked) = asked {
            asked.requested(&answer, writes);
        }
        answer
    }
}

fn texts(values: BTreeMap<String, Vec<u8>>) -> Result<BTreeMap<String, String>, SecretError> {
    let texts = values.into_iter();
    let texts = texts.map(|(key, value)| Some((key, String::from_utf8(value).ok()?)));
    texts.collect::<Option<_>>().ok_or(SecretError::NotText)
}

/// Serializes a request's body.
fn text(body: &impl Serialize) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(body).map_err(|error| ApiError::local(error.to_string()))
}

fn read_secret(text: &str) -> Result<BTreeMap<String, Vec<u8>>, ApiError> {
    #[derive(Deserialize)]
    struct Secret {
        #[serde(default)]
        data: Option<BTreeMap<String, ByteString>>,
    }
    let Ok(secret) = serde_json::from_str::<Secret>(text) else {
        // The decoder's message might quote the value.
        return Err(ApiError::local("the API server's answer is not a Secret"));
    };
    let values = secret.data.unwrap_or_default().into_iter();
    Ok(values.map(|(key, value)| (key, value.0)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attacher_62_values_that_are_not_text_are_told_apart() {
        let values = |bytes: &[u8]| [("a".to_owned(), bytes.to_vec())].into();
        let read = [("a".to_owned(), "admin".to_owned())].into();
        assert_eq!(texts(values(b"admin")), Ok(read));
        assert_eq!(texts(values(b"\xff")), Err(SecretError::NotText));
    }

    #[test]
    fn values_of_a_secret_are_bytes_and_never_quoted() {
        let admin = BTreeMap::from([("user".to_owned(), b"admin".to_vec())]);
        assert_eq!(read_secret(r#"{"data":{"user":"YWRtaW4="}}"#), Ok(admin));
        assert_eq!(read_secret("{}"), Ok(BTreeMap::new()));
        assert_eq!(read_secret(r#"{"data":null}"#), Ok(BTreeMap::new()));
        let planted = read_secret(r#"{"data":{"a":"planted-secret!"}}"#).unwrap_err();
        assert!(!planted.message.contains("planted"), "{planted}");
    }
}
