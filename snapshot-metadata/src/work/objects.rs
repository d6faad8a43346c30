//! What is asked of the API server. Nothing waits long: a client does.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use sidecar::kube::api::{Api, ApiError, SecretError, key};
use sidecar::kube::reflect::Resource;
use sidecar::secret::SecretRef;
use sidecar::snapshot::{CLASS, CONTENT, SNAPSHOT, VERSION};
use tokio::time::timeout;
use tonic::Code;

use crate::model::{
    self, AccessReview, Class, Content, SERVICES, SERVICES_VERSION, Service, Snapshot, TokenReview,
    User,
};
use crate::plan::refusal::{Reason, Refusal};

const TOKENS: Resource = Resource::new("authentication.k8s.io", "v1", "tokenreviews");
const ACCESS: Resource = Resource::new("authorization.k8s.io", "v1", "subjectaccessreviews");
const SNAPSHOTS: Resource = Resource::new(SNAPSHOT.group, VERSION, SNAPSHOT.plural);
const CONTENTS: Resource = Resource::new(CONTENT.group, VERSION, CONTENT.plural);
const CLASSES: Resource = Resource::new(CLASS.group, VERSION, CLASS.plural);
const METADATA: Resource = Resource::new(SERVICES.group, SERVICES_VERSION, SERVICES.plural);
const ALL_CLASSES: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses";

/// For one request.
const PATIENCE: Duration = Duration::from_secs(10);

/// The API server, by three clients with a budget each, as upstream.
#[derive(Clone, Debug)]
pub struct Objects {
    /// Reviews and Secrets.
    pub core: Api,
    /// Snapshots, contents, classes.
    pub snapshots: Api,
    /// SnapshotMetadataServices.
    pub services: Api,
}

async fn soon<T>(asking: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    match timeout(PATIENCE, asking).await {
        Ok(answer) => answer,
        Err(_elapsed) => Err(ApiError {
            message: "the API server does not answer".to_owned(),
            refusal: sidecar::refusal::Refusal::Unknown,
        }),
    }
}

fn read<T>(text: &str, read: fn(&str) -> Result<T, serde_json::Error>) -> Result<T, ApiError> {
    read(text).map_err(|error| ApiError::unreadable(&error))
}

/// A review that could not be made. Who asks is not known yet, and learns no more than that.
fn unreviewed(text: &str, error: &ApiError) -> Refusal {
    let code = if error.is_unknown() {
        Code::Unavailable
    } else {
        Code::Internal
    };
    Refusal::new(Reason::Review, code, text).because(error.to_string())
}

fn unavailable(text: String) -> Refusal {
    Refusal::new(Reason::Objects, Code::Unavailable, text)
}

impl Objects {
    /// The SnapshotMetadataService of the driver.
    ///
    /// # Errors
    /// Nobody can be authenticated without it.
    pub async fn service(&self, driver: &str) -> Result<Service, Refusal> {
        let asking = async {
            let text = self.services.get(&METADATA, &key(None, driver)?).await?;
            read(&text, Service::read)
        };
        let failed = |error| {
            let refusal = unreviewed("failed to authenticate user", &error);
            let cause = format!("SnapshotMetadataService {driver}: {error}");
            refusal.because(cause)
        };
        soon(asking).await.map_err(failed)
    }

    /// Whose token it is.
    ///
    /// # Errors
    /// The API server does not say.
    pub async fn review_token(&self, token: &str, audience: &str) -> Result<TokenReview, Refusal> {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [audience]},
        });
        let asking = async {
            let text = self.core.create(&TOKENS, None, &review).await?;
            // An answer repeats the token, which an error must not quote.
            model::review(&text).map_err(|_error| ApiError::local("the answer is no TokenReview"))
        };
        let failed = |error| unreviewed("failed to authenticate user", &error);
        soon(asking).await.map_err(failed)
    }

    /// Whether a user may read the VolumeSnapshots of a namespace.
    ///
    /// # Errors
    /// The API server does not say.
    pub async fn review_access(
        &self,
        user: &User,
        namespace: &str,
    ) -> Result<AccessReview, Refusal> {
        let failed = |error| unreviewed("failed to authorize the user", &error);
        let mut spec = serde_json::to_value(user)
            .map_err(|error| failed(ApiError::local(error.to_string())))?;
        if let Some(fields) = spec.as_object_mut() {
            let about = json!({
                "verb": "get", "group": SNAPSHOT.group, "version": VERSION,
                "resource": SNAPSHOT.plural, "namespace": namespace,
            });
            fields.insert("resourceAttributes".to_owned(), about);
        }
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec,
        });
        let asking = async {
            let text = self.core.create(&ACCESS, None, &review).await?;
            model::review(&text).map_err(|error| ApiError::unreadable(&error))
        };
        soon(asking).await.map_err(failed)
    }

    /// A VolumeSnapshot.
    ///
    /// # Errors
    /// It is not there, or the API server does not say.
    pub async fn snapshot(&self, namespace: &str, name: &str) -> Result<Snapshot, Refusal> {
        let asking = async {
            let key = key(Some(namespace), name)?;
            let text = self.snapshots.get(&SNAPSHOTS, &key).await?;
            read(&text, Snapshot::read)
        };
        soon(asking).await.map_err(|error| {
            let text = format!("failed to get VolumeSnapshot '{namespace}/{name}': {error}");
            let code = if error.is_not_found() {
                Code::NotFound
            } else {
                Code::Unavailable
            };
            Refusal::new(Reason::Objects, code, text)
        })
    }

    /// A VolumeSnapshotContent.
    ///
    /// # Errors
    /// It is not there, or the API server does not say.
    pub async fn content(&self, name: &str) -> Result<Content, Refusal> {
        let asking = async {
            let text = self.snapshots.get(&CONTENTS, &key(None, name)?).await?;
            read(&text, Content::read)
        };
        soon(asking).await.map_err(|error| {
            unavailable(format!(
                "failed to get VolumeSnapshotContent '{name}': {error}"
            ))
        })
    }

    /// A VolumeSnapshotClass; `None` if it is gone.
    ///
    /// # Errors
    /// The API server does not say.
    pub async fn class(&self, name: &str) -> Result<Option<Class>, Refusal> {
        let asking = async {
            let text = self.snapshots.get(&CLASSES, &key(None, name)?).await?;
            read(&text, Class::read)
        };
        match soon(asking).await {
            Ok(class) => Ok(Some(class)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => {
                let text = format!("failed to get VolumeSnapshotClass '{name}': {error}");
                Err(unavailable(text))
            }
        }
    }

    /// All VolumeSnapshotClasses.
    ///
    /// # Errors
    /// The API server does not say.
    pub async fn classes(&self) -> Result<Vec<Class>, Refusal> {
        let asking = async {
            let text = self.snapshots.read(ALL_CLASSES).await?;
            read(&text, Class::read_list)
        };
        soon(asking)
            .await
            .map_err(|error| unavailable(format!("failed to list VolumeSnapshotClasses: {error}")))
    }

    /// The values of a Secret.
    ///
    /// # Errors
    /// It is not there, or no call can carry it.
    pub async fn secret(&self, of: &SecretRef) -> Result<BTreeMap<String, String>, Refusal> {
        let asking = async {
            match self.core.secret_texts(of).await {
                Ok(texts) => Ok(texts),
                Err(SecretError::Unread(error)) => Err(error),
                Err(SecretError::NotText) => Err(ApiError::local("a value is not text")),
            }
        };
        soon(asking).await.map_err(|error| {
            let (name, namespace) = (&of.name, &of.namespace);
            unavailable(format!(
                "failed to get credentials: error getting secret {name} in namespace {namespace}: {error}"
            ))
        })
    }
}
