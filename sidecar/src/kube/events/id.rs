//! What events are told apart by, in the space of a number: thousands are remembered.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// Several texts as one number. Two hashes with keys of their own: nobody can make two of them meet.
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
