//! The name of an object within its kind.
//!
//! One text, in client-go's format for queues and logs, so that the cache's key, the queue's key
//! and the name in the log share one allocation.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// `name` for cluster-scoped objects, `namespace/name` for others. Clones share the text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// The key of a cluster-scoped object or, if `namespace` is not empty, of a namespaced one.
    ///
    /// `None` if the name is empty or either part has a slash, which no API server allows.
    pub fn new(namespace: Option<&str>, name: &str) -> Option<Self> {
        let namespace = namespace.unwrap_or_default();
        if name.is_empty() || name.contains('/') || namespace.contains('/') {
            return None;
        }
        Some(Self(if namespace.is_empty() {
            Arc::from(name)
        } else {
            Arc::from(format!("{namespace}/{name}"))
        }))
    }

    /// The namespace, if the object has one.
    pub fn namespace(&self) -> Option<&str> {
        self.0.split_once('/').map(|(namespace, _)| namespace)
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// `name` or `namespace/name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back() {
        for (namespace, name, text) in [
            (None, "pv-1", "pv-1"),
            (Some(""), "pv-1", "pv-1"),
            (Some("ns"), "claim", "ns/claim"),
        ] {
            let key = Key::new(namespace, name).unwrap();
            assert_eq!(key.as_str(), text);
            assert_eq!(key.name(), name);
            assert_eq!(
                key.namespace(),
                namespace.filter(|namespace| !namespace.is_empty())
            );
        }
    }

    #[test]
    fn names_that_would_be_mistaken_for_others_are_refused() {
        for (namespace, name) in [
            (None, ""),
            (None, "a/b"),
            (Some("a/b"), "c"),
            (Some("a"), "/"),
        ] {
            assert_eq!(Key::new(namespace, name), None);
        }
    }
}
