//! Which Secret a class names for the calls on a content.
//!
//! Its words are written into the content: what they are resolved from may be gone when the content
//! is deleted. The Secret itself is never looked at here.

use std::fmt;

use sidecar::snapshot::content_name;
use sidecar::template::{self, UnknownTokens};

use crate::model::{Class, Snapshot};

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
    /// One of the two parameters alone.
    Half,
    /// One of the two is empty.
    Empty,
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
            Self::Half => write!(
                out,
                "{WRAP} either name and namespace for Snapshotter secrets specified, Both must be \
                 specified"
            ),
            Self::Empty => write!(
                out,
                "{WRAP} Snapshotter secrets specified in parameters but value of either namespace \
                 or name is empty"
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

/// The Secret that `class` names for the content of `snapshot`.
///
/// # Errors
/// The class does not say one that there could be.
pub fn resolve(class: &Class, snapshot: &Snapshot) -> Result<Option<Secret>, Problem> {
    let (name, namespace) = match (&class.secret_name, &class.secret_namespace) {
        (None, None) => return Ok(None),
        (Some(name), Some(namespace)) => (&**name, &**namespace),
        (Some(_), None) | (None, Some(_)) => return Err(Problem::Half),
    };
    if name.is_empty() || namespace.is_empty() {
        return Err(Problem::Empty);
    }
    let content = content_name(&snapshot.uid);
    let in_namespace = |token: &str| match token {
        "volumesnapshotcontent.name" => Some(&*content),
        "volumesnapshot.namespace" => Some(&*snapshot.namespace),
        _ => None,
    };
    let in_name = |token: &str| match token {
        "volumesnapshot.name" => Some(&*snapshot.name),
        _ => in_namespace(token),
    };
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
fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_part)
}

fn is_part(text: &str) -> bool {
    let end =
        |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    let bytes = text.as_bytes();
    end(bytes.first()) && end(bytes.last()) && bytes.iter().all(inner)
}
