//! Shared strings: most values of a PersistentVolume repeat from object to object.
//!
//! Separate, so that records can share one allocation per distinct value without knowing who
//! interned it.

use std::sync::Arc;

/// An immutable string that many records may share.
pub type Text = Arc<str>;

/// An immutable list of strings that many records may share.
pub type List = Arc<[Text]>;

/// A small map of strings that many records may share, kept as keys and values in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairs(List);

impl Default for Pairs {
    fn default() -> Self {
        Self(Arc::from([]))
    }
}

impl Pairs {
    /// The map whose keys and values `list` holds in turn; a key without value is dropped.
    #[must_use]
    pub fn new(list: List) -> Self {
        Self(list)
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.chunks_exact(2).filter_map(|pair| match pair {
            [key, value] => Some((&**key, &**value)),
            _ => None,
        })
    }
}
