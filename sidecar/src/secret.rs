//! Resolves the Secret of a CSI call.
//!
//! A class names it by two parameters, templates of its name and of its namespace. A misread name would be another
//! user's Secret: so there is one resolver.

use crate::names::{is_label, is_subdomain};
use crate::template::{self, UnknownTokens};
use crate::text::Text;

/// A reference to a Secret by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretRef {
    /// The Secret's namespace.
    pub namespace: Text,
    /// The Secret's name.
    pub name: Text,
}

impl AsRef<Self> for SecretRef {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// The name or the namespace of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `name`
    Name,
    /// `namespace`
    Namespace,
}

/// A parameter of a class, and its template, if set.
#[derive(Clone, Copy, Debug)]
pub struct Template<'a> {
    /// The parameter's key.
    pub key: &'static str,
    /// The parameter's value.
    pub text: Option<&'a str>,
}

/// Why a class does not name a Secret unambiguously.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    /// One parameter without the other.
    #[error("the StorageClass has {present} but not {missing}")]
    Half {
        /// The key that is set.
        present: &'static str,
        /// The key that is missing.
        missing: &'static str,
    },
    /// The value under this key is empty.
    #[error("{0} of the StorageClass is empty")]
    Empty(&'static str),
    /// The template under this key has unknown tokens.
    #[error("{0} {1:?} of the StorageClass has {2}")]
    Tokens(&'static str, String, UnknownTokens),
    /// The resolved text is not a valid name.
    #[error(
        "{key} {template:?} of the StorageClass {}is not a valid name",
        if template == resolved { String::new() } else { format!("resolves to {resolved:?}, which ") }
    )]
    Invalid {
        /// Which name it is.
        part: Part,
        /// The parameter's key.
        key: &'static str,
        /// The template in the class.
        template: String,
        /// The resolved text.
        resolved: String,
    },
}

/// Resolves the Secret that these two parameters name, if any; `value` returns the value of a token in each of them.
///
/// # Errors
/// Why the class does not name a Secret unambiguously.
pub fn resolve<'v>(
    name: Template<'_>,
    namespace: Template<'_>,
    value: impl Fn(Part, &str) -> Option<&'v str>,
) -> Result<Option<SecretRef>, Unclear> {
    let half = |present: Template<'_>, missing: Template<'_>| Unclear::Half {
        present: present.key,
        missing: missing.key,
    };
    let texts = match (name.text, namespace.text) {
        (None, None) => return Ok(None),
        (Some(_), None) => return Err(half(name, namespace)),
        (None, Some(_)) => return Err(half(namespace, name)),
        (Some(name), Some(namespace)) => [name, namespace],
    };
    let [name_text, namespace_text] = texts;
    for (key, text) in [(name.key, name_text), (namespace.key, namespace_text)] {
        if text.is_empty() {
            return Err(Unclear::Empty(key));
        }
    }
    let resolved = |part, key, text: &str| {
        let resolved = template::resolve(text, |token| value(part, token));
        let resolved = resolved.map_err(|tokens| Unclear::Tokens(key, text.to_owned(), tokens))?;
        let is_valid = match part {
            Part::Name => is_subdomain(&resolved),
            Part::Namespace => is_label(&resolved),
        };
        if is_valid {
            return Ok(Text::from(resolved));
        }
        let template = text.to_owned();
        Err(Unclear::Invalid {
            part,
            key,
            template,
            resolved,
        })
    };
    Ok(Some(SecretRef {
        namespace: resolved(Part::Namespace, namespace.key, namespace_text)?,
        name: resolved(Part::Name, name.key, name_text)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_is_judged_first() {
        let (name, namespace) = (Some("Bad"), Some("$x"));
        let templates = (
            Template {
                key: "n",
                text: name,
            },
            Template {
                key: "ns",
                text: namespace,
            },
        );
        let found = resolve(templates.0, templates.1, |_, _| None);
        assert!(matches!(found, Err(Unclear::Tokens("ns", ..))), "{found:?}");
    }

    #[test]
    fn a_token_may_stand_for_something_in_one_of_both() {
        let template = |text| Template {
            key: "key",
            text: Some(text),
        };
        let value = |part, token: &str| (part == Part::Name && token == "x").then_some("a.b");
        let found = resolve(template("$x"), template("ns"), value)
            .unwrap()
            .unwrap();
        assert_eq!((&*found.namespace, &*found.name), ("ns", "a.b"));
        let found = resolve(template("n"), template("$x"), value);
        assert!(matches!(found, Err(Unclear::Tokens(..))), "{found:?}");
    }
}
