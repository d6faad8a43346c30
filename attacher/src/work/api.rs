//! Requests to the API server beside the watches, and what their failures mean.
//!
//! Only PATCH writes, and GET for Secrets and for attachments in doubt. The bodies of Secrets never
//! reach a decoder that might quote them in an error.

use std::collections::BTreeMap;

use http::{Request, header};
use k8s_openapi::ByteString;
use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use sidecar::error::Chain;
use sidecar::kube::key::Key;
use sidecar::kube::patch::{self, Part, Patch};
use sidecar::kube::reflect::Resource;

use crate::model::SecretRef;
use crate::plan::attachment::Answer;
use crate::plan::outcome::ApiError;

/// VolumeAttachments.
pub const ATTACHMENTS: Resource = Resource {
    group: "storage.k8s.io",
    version: "v1",
    plural: "volumeattachments",
    metadata_only: false,
};

/// PersistentVolumes.
pub const VOLUMES: Resource = Resource {
    group: "",
    version: "v1",
    plural: "persistentvolumes",
    metadata_only: false,
};

/// CSINodes.
pub const NODES: Resource = Resource {
    group: "storage.k8s.io",
    version: "v1",
    plural: "csinodes",
    metadata_only: false,
};

const SECRETS: Resource = Resource {
    group: "",
    version: "v1",
    plural: "secrets",
    metadata_only: false,
};

/// The API server, for single objects.
#[derive(Clone)]
pub struct Api {
    client: Client,
}

impl Api {
    /// Requests through `client`, which limits and times them.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Patches an object and returns its JSON as it is afterwards.
    ///
    /// # Errors
    /// The server refused, or nobody knows.
    pub async fn patch(
        &self,
        resource: &Resource,
        key: &Key,
        part: Part,
        patch: &Patch,
    ) -> Result<Box<RawValue>, ApiError> {
        let sent = patch::send(&self.client, resource, key, part, patch);
        sent.await.map_err(|error| api_error(&error))
    }

    /// The JSON of an attachment, from the API server itself.
    ///
    /// # Errors
    /// It is not there, or the server did not say.
    pub async fn attachment(&self, key: &Key) -> Result<String, ApiError> {
        let path = patch::path(&ATTACHMENTS, key, Part::Main);
        self.get(path).await
    }

    /// The values of a Secret.
    pub async fn secret(&self, reference: &SecretRef) -> Answer {
        let Some(key) = Key::new(Some(&reference.namespace), &reference.name) else {
            return Answer::Refused(ApiError {
                message: "not a valid namespace and name".to_owned(),
                not_found: false,
                unknown: false,
            });
        };
        let text = match self.get(patch::path(&SECRETS, &key, Part::Main)).await {
            Ok(text) => text,
            Err(error) => return Answer::Refused(error),
        };
        read_secret(&text)
    }

    async fn get(&self, path: String) -> Result<String, ApiError> {
        let request = Request::get(path)
            .header(header::ACCEPT, "application/json")
            .body(Vec::new());
        let request = request.map_err(|error| api_error(&kube::Error::HttpError(error)))?;
        let answer = self.client.request_text(request).await;
        answer.map_err(|error| api_error(&error))
    }
}

fn read_secret(text: &str) -> Answer {
    #[derive(Deserialize)]
    struct Secret {
        #[serde(default)]
        data: Option<BTreeMap<String, ByteString>>,
    }
    let Ok(secret) = serde_json::from_str::<Secret>(text) else {
        // The reason might quote the value.
        return Answer::Refused(ApiError {
            message: "the API server's answer is not a Secret".to_owned(),
            not_found: false,
            unknown: false,
        });
    };
    let values = secret.data.unwrap_or_default().into_iter();
    let texts = values.map(|(key, value)| Ok((key, String::from_utf8(value.0)?)));
    match texts.collect::<Result<_, std::string::FromUtf8Error>>() {
        Ok(texts) => Answer::Secret(texts),
        Err(_) => Answer::SecretNotText,
    }
}

/// What is left of the client's error: the server's words as they are, since they end up in status
/// messages, and whether the request may have been applied.
pub(super) fn api_error(error: &kube::Error) -> ApiError {
    if let kube::Error::Api(status) = error {
        return ApiError {
            message: status.message.clone(),
            not_found: status.code == 404,
            unknown: status.code >= 500,
        };
    }
    ApiError {
        message: Chain(error).to_string(),
        not_found: false,
        unknown: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_59_60_62_values_of_a_secret_are_text_or_refused() {
        let read = |text| match read_secret(text) {
            Answer::Secret(values) => Ok(values),
            Answer::SecretNotText => Err("not text".to_owned()),
            Answer::Refused(error) => Err(error.message),
            Answer::Written | Answer::Published(_) | Answer::Unpublished | Answer::Failed(_) => {
                unreachable!("no answer to a GET")
            }
        };
        let admin = BTreeMap::from([("user".to_owned(), "admin".to_owned())]);
        assert_eq!(read(r#"{"data":{"user":"YWRtaW4="}}"#), Ok(admin));
        assert_eq!(read("{}"), Ok(BTreeMap::new()));
        assert_eq!(read(r#"{"data":null}"#), Ok(BTreeMap::new()));
        assert_eq!(read(r#"{"data":{"a":"/w=="}}"#), Err("not text".into()));
        let planted = read(r#"{"data":{"a":"planted-secret!"}}"#).unwrap_err();
        assert!(!planted.contains("planted"), "{planted}");
    }
}
