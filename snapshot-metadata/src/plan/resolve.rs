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

/// The user that the token belongs to.
///
/// # Errors
/// The token is invalid, or was issued for another audience.
pub fn authenticated(review: TokenReview, audience: &str) -> Result<User, Refusal> {
    if review.authenticated && review.audiences.iter().any(|one| one == audience) {
        return Ok(review.user);
    }
    Err(unauthenticated())
}

/// The refusal of a token that the API server does not accept.
#[must_use]
pub fn unauthenticated() -> Refusal {
    let text = "unauthenticated user";
    Refusal::new(Reason::Unauthenticated, Code::Unauthenticated, text)
}

/// Whether the user may read VolumeSnapshots of the namespace.
///
/// # Errors
/// The user may not.
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
/// The snapshot is not ready, or not bound.
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

/// The snapshot handle of the content `name`, which belongs to the VolumeSnapshot `snapshot`.
///
/// # Errors
/// The content is not ready, has no handle, or belongs to another driver.
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
/// The driver has several default classes.
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

/// The Secret of a call for the VolumeSnapshot with this namespace, name and content: from the class's
/// templates or, without a class, from the annotations that the snapshot-controller wrote to the
/// content.
///
/// # Errors
/// The class's templates do not yield a valid Secret name.
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
