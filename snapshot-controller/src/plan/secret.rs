//! Which Secret a class names for the calls on a content.
//!
//! Its words are written into the content: what they are resolved from may be gone when the content
//! is deleted. The Secret itself is never looked at here.

use std::fmt;

use sidecar::snapshot::group::{CONTENT_NAME_TOKEN, NAME_TOKEN, NAMESPACE_TOKEN};
use sidecar::template::{self, UnknownTokens};

use crate::model::{Class, Group, Snapshot};

/// Name and namespace of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Why a class does not say which Secret it means. Users know upstream's words, and search for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// One of the two parameters of this kind of Secrets alone.
    Half(&'static str),
    /// One of the two is empty.
    Empty(&'static str),
    /// Tokens that stand for nothing.
    Tokens(String, UnknownTokens),
    /// What came out is no namespace.
    Namespace(String, String),
    /// What came out is no Secret's name.
    Name(String, String),
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WRAP: &str = "failed to get name and namespace template from params:";
        let invalid = |out: &mut fmt::Formatter<'_>, template, resolved, what| {
            if template == resolved {
                return write!(out, "{template:?} is not a valid {what}");
            }
            write!(
                out,
                "{template:?} resolved to {resolved:?} which is not a valid {what}"
            )
        };
        match self {
            Self::Half(kind) => write!(
                out,
                "{WRAP} either name and namespace for {kind} secrets specified, Both must be \
                 specified"
            ),
            Self::Empty(kind) => write!(
                out,
                "{WRAP} {kind} secrets specified in parameters but value of either namespace or \
                 name is empty"
            ),
            Self::Tokens(template, tokens) => {
                write!(out, "error resolving value {template:?}: {tokens}")
            }
            Self::Namespace(template, resolved) => {
                invalid(out, template, resolved, "namespace name")
            }
            Self::Name(template, resolved) => invalid(out, template, resolved, "secret name"),
        }
    }
}

/// What the tokens of a template stand for, and what users call such Secrets. Each token is a pair of its
/// name and its text.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    kind: &'static str,
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
            kind: "Snapshotter",
            content: ("volumesnapshotcontent.name", content),
            namespace: ("volumesnapshot.namespace", &snapshot.namespace),
            name: ("volumesnapshot.name", &snapshot.name),
        }
    }

    /// Those of a VolumeGroupSnapshot and the content of that name.
    #[must_use]
    pub fn of_group(group: &'a Group, content: &'a str) -> Self {
        Self {
            kind: "GroupSnapshotter",
            content: (CONTENT_NAME_TOKEN, content),
            namespace: (NAMESPACE_TOKEN, &group.namespace),
            name: (NAME_TOKEN, &group.name),
        }
    }
}

fn known<'a>(token: &str, (name, text): (&str, &'a str)) -> Option<&'a str> {
    (token == name).then_some(text)
}

/// The Secret that `class` names for a content.
///
/// # Errors
/// The class does not say one that there could be.
pub fn resolve(class: &Class, words: &Words<'_>) -> Result<Option<Secret>, Problem> {
    let (name, namespace) = match (&class.secret_name, &class.secret_namespace) {
        (None, None) => return Ok(None),
        (Some(name), Some(namespace)) => (&**name, &**namespace),
        (Some(_), None) | (None, Some(_)) => return Err(Problem::Half(words.kind)),
    };
    if name.is_empty() || namespace.is_empty() {
        return Err(Problem::Empty(words.kind));
    }
    let in_namespace =
        |token: &str| known(token, words.content).or_else(|| known(token, words.namespace));
    let in_name = |token: &str| known(token, words.name).or_else(|| in_namespace(token));
    let tokens = |template: &str| {
        let template = template.to_owned();
        |tokens| Problem::Tokens(template, tokens)
    };
    let in_full = template::resolve(namespace, in_namespace).map_err(tokens(namespace))?;
    if !is_label(&in_full) {
        return Err(Problem::Namespace(namespace.to_owned(), in_full));
    }
    let resolved = template::resolve(name, in_name).map_err(tokens(name))?;
    if !is_subdomain(&resolved) {
        return Err(Problem::Name(name.to_owned(), resolved));
    }
    Ok(Some(Secret {
        namespace: in_full,
        name: resolved,
    }))
}

/// A DNS-1123 label, as namespaces are named.
fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_part(text)
}

/// A DNS-1123 subdomain, as Secrets are named: Kubernetes bounds the whole, not its labels.
pub(super) fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_part)
}

fn is_part(text: &str) -> bool {
    let end =
        |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    let bytes = text.as_bytes();
    end(bytes.first()) && end(bytes.last()) && bytes.iter().all(inner)
}
