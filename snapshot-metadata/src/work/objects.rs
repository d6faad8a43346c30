//! Requests to the API server. They time out soon: a client waits for each.

use std::collections::BTreeMap;

use serde_json::json;
use sidecar::kube::api::{Api, ApiError, SecretError, key};
use sidecar::kube::reflect::Resource;
use sidecar::secret::SecretRef;
use sidecar::secure::reviews::{self, AccessReview, TokenReview, User, soon};
use sidecar::snapshot::{CLASS, CONTENT, SNAPSHOT, VERSION};
use tonic::Code;

use crate::model::{Class, Content, SERVICES, SERVICES_VERSION, Service, Snapshot};
use crate::plan::refusal::{Reason, Refusal};

const SNAPSHOTS: Resource = Resource::new(SNAPSHOT.group, VERSION, SNAPSHOT.plural);
const CONTENTS: Resource = Resource::new(CONTENT.group, VERSION, CONTENT.plural);
const CLASSES: Resource = Resource::new(CLASS.group, VERSION, CLASS.plural);
const METADATA: Resource = Resource::new(SERVICES.group, SERVICES_VERSION, SERVICES.plural);
const ALL_CLASSES: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses";

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

fn read<T>(text: &str, read: fn(&str) -> Result<T, serde_json::Error>) -> Result<T, ApiError> {
    read(text).map_err(|error| ApiError::unreadable(&error))
}

/// The refusal when a review fails. The client is not authenticated yet, so it learns no more than
/// that.
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
    /// The read fails; without the object no client can be authenticated.
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

    /// Reviews a token for an audience.
    ///
    /// # Errors
    /// The API server does not answer, or refuses.
    pub async fn review_token(&self, token: &str, audience: &str) -> Result<TokenReview, Refusal> {
        let review = reviews::review_token(&self.core, token, &[audience]).await;
        review.map_err(|error| unreviewed("failed to authenticate user", &error))
    }

    /// Reviews whether a user may read the VolumeSnapshots of a namespace.
    ///
    /// # Errors
    /// The API server does not answer, or refuses.
    pub async fn review_access(
        &self,
        user: &User,
        namespace: &str,
    ) -> Result<AccessReview, Refusal> {
        let about = json!({
            "verb": "get", "group": SNAPSHOT.group, "version": VERSION,
            "resource": SNAPSHOT.plural, "namespace": namespace,
        });
        let review = reviews::review_access(&self.core, user, ("resourceAttributes", about)).await;
        review.map_err(|error| unreviewed("failed to authorize the user", &error))
    }

    /// Reads a VolumeSnapshot.
    ///
    /// # Errors
    /// It does not exist, or the API server does not answer.
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

    /// Reads a VolumeSnapshotContent.
    ///
    /// # Errors
    /// It does not exist, or the API server does not answer.
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

    /// Reads a VolumeSnapshotClass; `None` if it does not exist.
    ///
    /// # Errors
    /// The API server does not answer.
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

    /// Lists all VolumeSnapshotClasses.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn classes(&self) -> Result<Vec<Class>, Refusal> {
        let asking = async {
            let text = self.snapshots.read(ALL_CLASSES).await?;
            read(&text, Class::read_list)
        };
        soon(asking)
            .await
            .map_err(|error| unavailable(format!("failed to list VolumeSnapshotClasses: {error}")))
    }

    /// Reads the values of a Secret.
    ///
    /// # Errors
    /// It does not exist, or a call cannot carry its values.
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
