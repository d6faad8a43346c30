//! Requests to the API server, exactly those of kubelet.
//!
//! Objects are JSON values and requests are plain: administrators' audit and authorization rules were written for these
//! resources, verbs and content types.

use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::kubelet::plan::keys::clip;

/// Limit of a request; the caller's retries follow.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

const JSON: &str = "application/json";
const STRATEGIC_MERGE: &str = "application/strategic-merge-patch+json";

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The object does not exist.
    #[error("{request}: not found")]
    NotFound {
        /// Method and path.
        request: String,
    },
    /// The API server refused.
    #[error("{request}: {code} {message}")]
    Refused {
        /// Method and path.
        request: String,
        /// The HTTP status.
        code: u16,
        /// Message of its status.
        message: String,
    },
    /// The API server could not be reached.
    #[error("{request}")]
    Failed {
        /// Method and path.
        request: String,
        /// The error of the connection.
        source: Box<kube::Error>,
    },
    /// The API server did not answer in time.
    #[error("{request}: no answer within {} s", REQUEST_TIMEOUT.as_secs())]
    Timeout {
        /// Method and path.
        request: String,
    },
    /// The answer is not the requested object.
    #[error("{request}: the answer is not the object that was asked for")]
    Strange {
        /// Method and path.
        request: String,
    },
    /// An object's name cannot be part of a path.
    #[error("{request}: not a valid request")]
    Invalid {
        /// Method and path.
        request: String,
        /// Error of building the request.
        source: http::Error,
    },
}

impl ApiError {
    /// Whether the object differs from the one that the write was for: 409, or 422 where a patch has another
    /// `metadata.uid`.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        let Self::Refused { code, message, .. } = self else {
            return false;
        };
        *code == 409 || *code == 422 && message.contains("metadata.uid")
    }

    /// Whether the object does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

/// The requests to the API server.
#[derive(Clone)]
pub struct Api {
    client: Client,
}

impl Api {
    /// Sends all requests through `client`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// GET of a Node.
    ///
    /// # Errors
    /// [`ApiError`]
    pub async fn node(&self, name: &str) -> Result<Value, ApiError> {
        self.object("GET", &format!("/api/v1/nodes/{name}"), JSON, None, name)
            .await
    }

    /// POST of a Node.
    ///
    /// # Errors
    /// [`ApiError`]
    pub async fn create_node(&self, node: &Value) -> Result<Value, ApiError> {
        self.request("POST", "/api/v1/nodes", JSON, Some(node))
            .await
    }

    /// PATCH of a Node's metadata through its `status` subresource, which kubelets may write.
    ///
    /// # Errors
    /// [`ApiError`]
    pub async fn patch_node_status(&self, name: &str, patch: &Value) -> Result<Value, ApiError> {
        let path = format!("/api/v1/nodes/{name}/status");
        self.request("PATCH", &path, STRATEGIC_MERGE, Some(patch))
            .await
    }

    /// GET of a CSINode; `None` if it does not exist.
    ///
    /// # Errors
    /// [`ApiError`] but never [`ApiError::NotFound`].
    pub async fn csinode(&self, name: &str) -> Result<Option<Value>, ApiError> {
        optional(
            self.object("GET", &csinode_path(name), JSON, None, name)
                .await,
        )
    }

    /// GET of a CSINode from the API server's cache, which is cheap and only shows whether it answers.
    ///
    /// # Errors
    /// [`ApiError`] but never [`ApiError::NotFound`].
    pub async fn cached_csinode(&self, name: &str) -> Result<Option<Value>, ApiError> {
        let path = format!("{}?resourceVersion=0", csinode_path(name));
        optional(self.object("GET", &path, JSON, None, name).await)
    }

    /// POST of a CSINode; returns the server's object.
    ///
    /// # Errors
    /// [`ApiError`]
    pub async fn create_csinode(&self, csinode: &Value) -> Result<Value, ApiError> {
        self.request("POST", CSINODES, JSON, Some(csinode)).await
    }

    /// PUT of a CSINode; the server rejects it if the object has changed since it was read.
    ///
    /// # Errors
    /// [`ApiError`]
    pub async fn replace_csinode(&self, name: &str, csinode: &Value) -> Result<Value, ApiError> {
        self.request("PUT", &csinode_path(name), JSON, Some(csinode))
            .await
    }

    /// DELETE of a CSINode if it still has this UID.
    ///
    /// # Errors
    /// [`ApiError`]
    pub async fn delete_csinode(&self, name: &str, uid: Option<&Value>) -> Result<Value, ApiError> {
        let body = uid.map(|uid| json!({ "preconditions": { "uid": uid } }));
        self.request("DELETE", &csinode_path(name), JSON, body.as_ref())
            .await
    }

    /// GET of a VolumeAttachment.
    ///
    /// # Errors
    /// [`ApiError`]
    pub async fn attachment(&self, name: &str) -> Result<Value, ApiError> {
        let path = format!("/apis/storage.k8s.io/v1/volumeattachments/{name}");
        self.object("GET", &path, JSON, None, name).await
    }

    /// PATCH of a pod's `status`; the server rejects it with a conflict if the pod of that name has another UID, since
    /// that is a successor.
    ///
    /// # Errors
    /// [`ApiError`]
    pub async fn patch_pod_status(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        status: &Value,
    ) -> Result<Value, ApiError> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/status");
        let patch = json!({ "metadata": { "uid": uid }, "status": status });
        self.request("PATCH", &path, STRATEGIC_MERGE, Some(&patch))
            .await
    }

    /// POST of a token request for a service account.
    ///
    /// # Errors
    /// [`ApiError`]
    pub async fn create_token(
        &self,
        namespace: &str,
        account: &str,
        request: &Value,
    ) -> Result<Value, ApiError> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        self.request("POST", &path, JSON, Some(request)).await
    }

    /// DELETE of a pod without grace period, if it still has this UID.
    ///
    /// # Errors
    /// [`ApiError`]
    pub async fn delete_pod(&self, namespace: &str, name: &str, uid: &str) -> Result<(), ApiError> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        let body = json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": uid } });
        self.request("DELETE", &path, JSON, Some(&body))
            .await
            .map(drop)
    }

    /// A request whose answer must be the object called `name`: a decision must not write or delete another object.
    async fn object(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
        name: &str,
    ) -> Result<Value, ApiError> {
        let object = self.request(method, path, content_type, body).await?;
        if object.pointer("/metadata/name").and_then(Value::as_str) == Some(name) {
            return Ok(object);
        }
        Err(ApiError::Strange {
            request: format!("{method} {path}"),
        })
    }

    async fn request(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Value, ApiError> {
        let request = format!("{method} {path}");
        let bytes = body
            .map(|body| body.to_string().into_bytes())
            .unwrap_or_default();
        let built = http::Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::ACCEPT, JSON)
            .header(http::header::CONTENT_TYPE, content_type)
            .body(bytes);
        let built = match built {
            Ok(built) => built,
            Err(source) => return Err(ApiError::Invalid { request, source }),
        };
        match timeout(REQUEST_TIMEOUT, self.client.request::<Value>(built)).await {
            Err(_) => Err(ApiError::Timeout { request }),
            Ok(Ok(object)) => Ok(object),
            Ok(Err(kube::Error::Api(status))) if status.is_not_found() => {
                Err(ApiError::NotFound { request })
            }
            Ok(Err(kube::Error::Api(status))) => Err(ApiError::Refused {
                request,
                code: status.code,
                message: clip(&status.message).to_owned(),
            }),
            Ok(Err(source)) => Err(ApiError::Failed {
                request,
                source: Box::new(source),
            }),
        }
    }
}

const CSINODES: &str = "/apis/storage.k8s.io/v1/csinodes";

fn csinode_path(name: &str) -> String {
    format!("{CSINODES}/{name}")
}

fn optional(answer: Result<Value, ApiError>) -> Result<Option<Value>, ApiError> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(ApiError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
