//! Resolves the Secret that a class names for the calls on a content.

use std::fmt;

use crate::log::quote;
use crate::secret::{self, Part, SecretRef, Template};
use crate::snapshot::{SECRET_NAME_PARAMETER, SECRET_NAMESPACE_PARAMETER};

/// Why a class does not name a Secret unambiguously. Users know upstream's wording and search for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unclear {
    /// Upstream's term for such Secrets.
    pub called: &'static str,
    /// The cause.
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

/// The values of a template's tokens, and upstream's term for such Secrets. Each token is a pair of its
/// name and its value.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// Upstream's term for such Secrets.
    pub called: &'static str,
    /// Parameters with the templates of name and namespace.
    pub keys: [&'static str; 2],
    /// The token for the content's name.
    pub content: (&'static str, &'a str),
    /// The token for the snapshot's namespace.
    pub namespace: (&'static str, &'a str),
    /// The token for the snapshot's name; not in the template of a namespace.
    pub name: (&'static str, &'a str),
}

impl<'a> Words<'a> {
    /// The tokens of the VolumeSnapshot `name` in `namespace` and of its content `content`.
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

/// Resolves the Secret that a class with these templates of name and namespace names for a content.
///
/// # Errors
/// The class does not name a valid Secret.
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
