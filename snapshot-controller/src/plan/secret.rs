//! Which Secret a class names for the calls on a content.
//!
//! Its words are written into the content: what they are resolved from may be gone when the content
//! is deleted.

use sidecar::secret::SecretRef;
use sidecar::snapshot::group::{self, CONTENT_NAME_TOKEN, NAME_TOKEN, NAMESPACE_TOKEN};
use sidecar::snapshot::secret::{self, Unclear, Words};

use crate::model::{Class, Group};

/// What the tokens of a VolumeGroupSnapshot and the content of that name stand for.
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
/// The class does not say one that there could be.
pub fn resolve(class: &Class, words: &Words<'_>) -> Result<Option<SecretRef>, Unclear> {
    let templates = (
        class.secret_name.as_deref(),
        class.secret_namespace.as_deref(),
    );
    secret::resolve(templates, words)
}
