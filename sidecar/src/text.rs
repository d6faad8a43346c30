//! Shared strings: most values of API objects repeat from object to object.
//!
//! Records and decisions can share one allocation per distinct value without depending on its
//! origin or on a Kubernetes client.

use std::sync::Arc;

/// An immutable string that many records may share.
pub type Text = Arc<str>;

/// An immutable list of strings that many records may share.
pub type List = Arc<[Text]>;

/// The start of `text`, cut at a character boundary to at most `bytes` bytes.
#[must_use]
pub fn truncated(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes))
        .unwrap_or_default()
}

/// A small map of strings that many records may share, stored as alternating keys and values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pairs(List);

impl Default for Pairs {
    fn default() -> Self {
        Self(Arc::from([]))
    }
}

impl Pairs {
    /// The map of `list`, which alternates keys and values; a key without value is dropped.
    #[must_use]
    pub fn new(list: List) -> Self {
        Self(list)
    }

    /// Whether the map is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// All keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.chunks_exact(2).filter_map(|pair| match pair {
            [key, value] => Some((&**key, &**value)),
            _ => None,
        })
    }

    /// The value under `key`, which can be shared without a copy.
    #[must_use]
    pub fn get_shared(&self, key: &str) -> Option<&Text> {
        self.0.chunks_exact(2).find_map(|pair| match pair {
            [name, value] if **name == *key => Some(value),
            _ => None,
        })
    }

    /// The value under `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.get_shared(key).map(|value| &**value)
    }
}

impl<K: Into<Text>, V: Into<Text>> FromIterator<(K, V)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter();
        Self(
            pairs
                .flat_map(|(key, value)| [key.into(), value.into()])
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_found_by_key() {
        let pairs: Pairs = [("a", "1"), ("b", "")].into_iter().collect();
        assert_eq!(pairs.get("a"), Some("1"));
        assert_eq!(pairs.get("b"), Some(""));
        assert_eq!(pairs.get("c"), None);
        assert_eq!(pairs.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "")]);
        assert!(Pairs::default().is_empty());
    }

    #[test]
    fn a_key_without_value_is_no_pair() {
        let odd = Pairs::new(Arc::from([Text::from("a")]));
        assert!(odd.is_empty());
        assert_eq!(odd.get("a"), None);
    }
}
