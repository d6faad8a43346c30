//! Which Secret a class names for the calls on a content, and why it does not.

use std::fmt;

use crate::log::quote;
use crate::secret::{self, Part, SecretRef, Template};
use crate::snapshot::{SECRET_NAME_PARAMETER, SECRET_NAMESPACE_PARAMETER};

/// A class does not say clearly which Secret it means. Users know upstream's words, and search for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclear {
    /// What users call such Secrets.
    pub called: &'static str,
    /// Why.
    pub why: secret::Unclear,
}

impl fmt::Display for Unclear {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const TEMPLATES: &str = "failed to get name and namespace template from params";
        let called = self.called;
        match &self.why {
            secret::Unclear::Half { .. } => write!(
                out,
                "{TEMPLATES}: either name and namespace for {called} secrets specified, Both must be \
                 specified"
            ),
            secret::Unclear::Empty(_) => write!(
                out,
                "{TEMPLATES}: {called} secrets specified in parameters but value of either namespace \
                 or name is empty"
            ),
            secret::Unclear::Tokens(_, text, unknown) => {
                write!(out, "error resolving value {}: {unknown}", quote(text))
            }
            secret::Unclear::Invalid {
                part,
                template,
                resolved,
                ..
            } => {
                out.write_str(&quote(template))?;
                if template != resolved {
                    write!(out, " resolved to {} which", quote(resolved))?;
                }
                out.write_str(match part {
                    Part::Name => " is not a valid secret name",
                    Part::Namespace => " is not a valid namespace name",
                })
            }
        }
    }
}

impl std::error::Error for Unclear {}

/// What the tokens of a template stand for, and what users call such Secrets. Each token is a pair of its
/// name and its text.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// What users call such Secrets.
    pub called: &'static str,
    /// Parameters with the templates of name and namespace.
    pub keys: [&'static str; 2],
    /// The content's name.
    pub content: (&'static str, &'a str),
    /// The snapshot's namespace.
    pub namespace: (&'static str, &'a str),
    /// The snapshot's name; not in the template of a namespace.
    pub name: (&'static str, &'a str),
}

impl<'a> Words<'a> {
    /// Those of the VolumeSnapshot `name` in `namespace` and the content of that name.
    #[must_use]
    pub fn of_snapshot((namespace, name): (&'a str, &'a str), content: &'a str) -> Self {
        Self {
            called: "Snapshotter",
            keys: [SECRET_NAME_PARAMETER, SECRET_NAMESPACE_PARAMETER],
            content: ("volumesnapshotcontent.name", content),
            namespace: ("volumesnapshot.namespace", namespace),
            name: ("volumesnapshot.name", name),
        }
    }

    fn value(&self, part: Part, token: &str) -> Option<&'a str> {
        let name = (part == Part::Name).then_some(self.name);
        let known = [self.content, self.namespace].into_iter().chain(name);
        let mut known = known.filter(|(name, _)| token == *name);
        known.next().map(|(_, text)| text)
    }
}

/// The Secret that a class with these templates of name and namespace names for a content.
///
/// # Errors
/// The class does not say one that there could be.
pub fn resolve(
    (name, namespace): (Option<&str>, Option<&str>),
    words: &Words<'_>,
) -> Result<Option<SecretRef>, Unclear> {
    let template = |key, text| Template { key, text };
    let [name_key, namespace_key] = words.keys;
    secret::resolve(
        template(name_key, name),
        template(namespace_key, namespace),
        |part, token| words.value(part, token),
    )
    .map_err(|why| Unclear {
        called: words.called,
        why,
    })
}
