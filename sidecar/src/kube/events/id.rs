//! Compact identities of events: thousands are remembered.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// Several texts hashed to a number. Two hashes with secret keys, so that nobody can construct a
/// collision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Id(u64, u64);

impl Id {
    pub(super) fn of(parts: &[&str]) -> Self {
        static KEYS: OnceLock<[RandomState; 2]> = OnceLock::new();
        let [one, other] = KEYS.get_or_init(|| [RandomState::new(), RandomState::new()]);
        Self(one.hash_one(parts), other.hash_one(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_and_their_borders_count() {
        assert_eq!(Id::of(&["a", "b"]), Id::of(&["a", "b"]));
        for other in [&["ab", ""][..], &["b", "a"], &["a"], &["a", "b", ""]] {
            assert_ne!(Id::of(&["a", "b"]), Id::of(other), "{other:?}");
        }
    }
}
