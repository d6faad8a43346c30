//! Which Secret a class names for the calls on a content.
//!
//! Its words are written into the content: what they are resolved from may be gone when the content
//! is deleted. The Secret itself is never looked at here.

use sidecar::secret::{self, Part, SecretRef, Template};
use sidecar::snapshot::group::{self, CONTENT_NAME_TOKEN, NAME_TOKEN, NAMESPACE_TOKEN};
use sidecar::snapshot::secret::Unclear;
use sidecar::snapshot::{SECRET_NAME_PARAMETER, SECRET_NAMESPACE_PARAMETER};

use crate::model::{Class, Group, Snapshot};

/// What the tokens of a template stand for, and what users call such Secrets. Each token is a pair of its
/// name and its text.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    called: &'static str,
    /// Parameters with the templates of name and namespace.
    keys: [&'static str; 2],
    content: (&'static str, &'a str),
    namespace: (&'static str, &'a str),
    /// Not in the template of a namespace.
    name: (&'static str, &'a str),
}

impl<'a> Words<'a> {
    /// Those of a VolumeSnapshot and the content of that name.
    #[must_use]
    pub fn of_snapshot(snapshot: &'a Snapshot, content: &'a str) -> Self {
        Self {
            called: "Snapshotter",
            keys: [SECRET_NAME_PARAMETER, SECRET_NAMESPACE_PARAMETER],
            content: ("volumesnapshotcontent.name", content),
            namespace: ("volumesnapshot.namespace", &snapshot.namespace),
            name: ("volumesnapshot.name", &snapshot.name),
        }
    }

    /// Those of a VolumeGroupSnapshot and the content of that name.
    #[must_use]
    pub fn of_group(group: &'a Group, content: &'a str) -> Self {
        Self {
            called: "GroupSnapshotter",
            keys: [
                group::SECRET_NAME_PARAMETER,
                group::SECRET_NAMESPACE_PARAMETER,
            ],
            content: (CONTENT_NAME_TOKEN, content),
            namespace: (NAMESPACE_TOKEN, &group.namespace),
            name: (NAME_TOKEN, &group.name),
        }
    }

    fn value(&self, part: Part, token: &str) -> Option<&'a str> {
        let name = (part == Part::Name).then_some(self.name);
        let known = [self.content, self.namespace].into_iter().chain(name);
        let mut known = known.filter(|(name, _)| token == *name);
        known.next().map(|(_, text)| text)
    }
}

/// The Secret that `class` names for a content.
///
/// # Errors
/// The class does not say one that there could be.
pub fn resolve(class: &Class, words: &Words<'_>) -> Result<Option<SecretRef>, Unclear> {
    let [name, namespace] = words.keys;
    let template = |key, text| Template { key, text };
    secret::resolve(
        template(name, class.secret_name.as_deref()),
        template(namespace, class.secret_namespace.as_deref()),
        |part, token| words.value(part, token),
    )
    .map_err(|why| Unclear {
        called: words.called,
        why,
    })
}
