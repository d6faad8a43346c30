//! Asks the API server for the user of a client's token, and for that user's permissions.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::kube::access::Rule;
use crate::kube::api::{Api, ApiError};
use crate::kube::reflect::Resource;
use crate::refusal::Refusal;

const TOKENS: Resource = Resource::new("authentication.k8s.io", "v1", "tokenreviews");
const ACCESS: Resource = Resource::new("authorization.k8s.io", "v1", "subjectaccessreviews");

/// Time limit of one review: a client waits for it.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// The permissions that reviews need, which `system:auth-delegator` grants.
pub static RULES: [Rule; 2] = [
    Rule::required(TOKENS.group, TOKENS.plural, &["create"]),
    Rule::required(ACCESS.group, ACCESS.plural, &["create"]),
];

/// The user of a token, in the form that access reviews take.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct User {
    /// `username`
    #[serde(rename(serialize = "user"))]
    pub username: String,
    /// `uid`
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// `groups`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// `extra`
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The status of a TokenReview.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TokenReview {
    /// `status.authenticated`
    pub authenticated: bool,
    /// `status.audiences`
    pub audiences: Vec<String>,
    /// `status.user`
    pub user: User,
}

/// The status of a SubjectAccessReview.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AccessReview {
    /// `status.allowed`
    pub allowed: bool,
    /// `status.reason`
    pub reason: String,
}

/// Decodes the status of a review.
///
/// # Errors
/// The text is not a review.
pub fn review<T: Default + for<'de> Deserialize<'de>>(text: &str) -> Result<T, serde_json::Error> {
    let mut answer: Value = serde_json::from_str(text)?;
    match answer.get_mut("status").map(Value::take) {
        None | Some(Value::Null) => Ok(T::default()),
        Some(status) => serde_json::from_value(status),
    }
}

/// Limits the time of a review for which a client waits.
///
/// # Errors
/// Like `asking`, or there is no response in time.
pub async fn soon<T>(asking: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    match timeout(REVIEW_TIMEOUT, asking).await {
        Ok(answer) => answer,
        Err(_elapsed) => Err(ApiError {
            message: "the API server does not answer".to_owned(),
            refusal: Refusal::Unknown,
        }),
    }
}

/// Reviews a token. Without `audiences` it must be for the API server.
///
/// # Errors
/// The request failed.
pub async fn review_token(
    api: &Api,
    token: &str,
    audiences: &[&str],
) -> Result<TokenReview, ApiError> {
    let mut review = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token},
    });
    if let Some(spec) = { review.get_mut("spec") }.filter(|_| !audiences.is_empty())
        && let Some(fields) = spec.as_object_mut()
    {
        fields.insert("audiences".to_owned(), json!(audiences));
    }
    let asking = async {
        let text = api.create(&TOKENS, None, &review).await?;
        // The response repeats the token, which an error must not quote.
        self::review(&text).map_err(|_error| ApiError::local("the answer is no TokenReview"))
    };
    soon(asking).await
}

/// Reviews a user's access: `attributes` are `resourceAttributes` or `nonResourceAttributes`.
///
/// # Errors
/// The request failed.
pub async fn review_access(
    api: &Api,
    user: &User,
    attributes: (&str, Value),
) -> Result<AccessReview, ApiError> {
    let spec = serde_json::to_value(user);
    let mut spec = spec.map_err(|error| ApiError::local(error.to_string()))?;
    if let Some(fields) = spec.as_object_mut() {
        let (name, about) = attributes;
        fields.insert(name.to_owned(), about);
    }
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec,
    });
    let asking = async {
        let text = api.create(&ACCESS, None, &review).await?;
        self::review(&text).map_err(|error| ApiError::unreadable(&error))
    };
    soon(asking).await
}
