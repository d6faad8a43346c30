//! From a VolumeSnapshot to the driver's snapshot and the Secret of the call.

use sidecar::secret::SecretRef;
use sidecar::secure::reviews::{AccessReview, TokenReview, User};
use sidecar::snapshot::secret::{self, Words};
use tonic::Code;

use super::refusal::{Reason, Refusal};
use crate::model::{Class, Content, Snapshot};

fn objects(text: String) -> Refusal {
    Refusal::new(Reason::Objects, Code::Unavailable, text)
}

/// Whose token it is.
///
/// # Errors
/// It is nobody's, or not for this audience.
pub fn authenticated(review: TokenReview, audience: &str) -> Result<User, Refusal> {
    if review.authenticated && review.audiences.iter().any(|one| one == audience) {
        return Ok(review.user);
    }
    Err(unauthenticated())
}

/// The token is not accepted.
#[must_use]
pub fn unauthenticated() -> Refusal {
    let text = "unauthenticated user";
    Refusal::new(Reason::Unauthenticated, Code::Unauthenticated, text)
}

/// Whether the user may read VolumeSnapshots of the namespace.
///
/// # Errors
/// It may not.
pub fn authorized(review: &AccessReview) -> Result<(), Refusal> {
    if review.allowed {
        return Ok(());
    }
    let reason = &review.reason;
    let text = format!("user does not have permissions to perform the operation: {reason}");
    Err(Refusal::new(
        Reason::Forbidden,
        Code::PermissionDenied,
        text,
    ))
}

/// The name of the content to which a snapshot is bound.
///
/// # Errors
/// It is not ready, or not bound.
pub fn content_of<'a>(snapshot: &'a Snapshot, name: &str) -> Result<&'a str, Refusal> {
    if !snapshot.ready {
        let text = format!("the VolumeSnapshot is not yet ready, name: {name}");
        return Err(objects(text));
    }
    snapshot.content.as_deref().ok_or_else(|| {
        objects(format!(
            "boundVolumeSnapshotContentName is not set in VolumeSnapshot status, name: {name}"
        ))
    })
}

/// The handle of a content, called `name`, of the VolumeSnapshot `snapshot`.
///
/// # Errors
/// It is not ready, has none, or is another driver's.
pub fn handle_of<'a>(
    content: &'a Content,
    name: &str,
    snapshot: &str,
    driver: &str,
) -> Result<&'a str, Refusal> {
    if !content.ready {
        let text = format!("the VolumeSnapshotContent is not yet ready, name: {name}");
        return Err(objects(text));
    }
    let handle = content.handle.as_deref().ok_or_else(|| {
        objects(format!(
            "snapshotHandle is not set in VolumeSnapshotContent status, name: {name}"
        ))
    })?;
    if content.driver != driver {
        let text =
            format!("VolumeSnapshot '{snapshot}' does not belong to the CSI driver '{driver}'");
        return Err(Refusal::new(Reason::Objects, Code::InvalidArgument, text));
    }
    Ok(handle)
}

/// The default class of the driver; `None` if it has none.
///
/// # Errors
/// There are several.
pub fn default_class(classes: Vec<Class>, driver: &str) -> Result<Option<Class>, Refusal> {
    let mut of_driver = { classes.into_iter() }.filter(|it| it.is_default && it.driver == driver);
    let first = of_driver.next();
    if of_driver.next().is_some() {
        return Err(objects(format!(
            "multiple default VolumeSnapshotClasses are set for the CSI driver '{driver}'"
        )));
    }
    Ok(first)
}

/// The Secret of a call for the VolumeSnapshot, by `namespace` and `name`, and its content: as the class
/// says or, without one, as the snapshot-controller has noted on the content.
///
/// # Errors
/// The class does not say one that there could be.
pub fn secret(
    class: Option<&Class>,
    content: &Content,
    snapshot: (&str, &str),
    content_name: &str,
) -> Result<Option<SecretRef>, Refusal> {
    let Some(class) = class else {
        let noted = content.secret.as_ref();
        return Ok(noted.map(|(namespace, name)| SecretRef {
            namespace: namespace.as_str().into(),
            name: name.as_str().into(),
        }));
    };
    let templates = (
        class.secret_name.as_deref(),
        class.secret_namespace.as_deref(),
    );
    let words = Words::of_snapshot(snapshot, content_name);
    secret::resolve(templates, &words).map_err(|unclear| {
        objects(format!(
            "invalid snapshotter secret parameters in VolumeSnapshotClass: {unclear}"
        ))
    })
}

#[cfg(test)]
mod tests;
