//! Resolves the Secret that a class names for the calls on a content.
//!
//! The controller writes the Secret's name to the content: the objects that it is resolved from may
//! be gone when the content is deleted.

use sidecar::secret::SecretRef;
use sidecar::snapshot::group::{self, CONTENT_NAME_TOKEN, NAME_TOKEN, NAMESPACE_TOKEN};
use sidecar::snapshot::secret::{self, Unclear, Words};

use crate::model::{Class, Group};

/// The values of the tokens for a VolumeGroupSnapshot and its content of that name.
#[must_use]
pub fn of_group<'a>(snapshot: &'a Group, content: &'a str) -> Words<'a> {
    Words {
        called: "GroupSnapshotter",
        keys: [
            group::SECRET_NAME_PARAMETER,
            group::SECRET_NAMESPACE_PARAMETER,
        ],
        content: (CONTENT_NAME_TOKEN, content),
        namespace: (NAMESPACE_TOKEN, &snapshot.namespace),
        name: (NAME_TOKEN, &snapshot.name),
    }
}

/// The Secret that `class` names for a content.
///
/// # Errors
/// The class's templates do not yield a valid name.
pub fn resolve(class: &Class, words: &Words<'_>) -> Result<Option<SecretRef>, Unclear> {
    let templates = (
        class.secret_name.as_deref(),
        class.secret_namespace.as_deref(),
    );
    secret::resolve(templates, words)
}
