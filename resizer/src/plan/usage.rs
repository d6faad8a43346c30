//! Which claims pods use.
//!
//! Counts as pods come and go; no decision iterates over all pods.

use std::collections::HashMap;

use sidecar::part::only;

use crate::model::{Pod, Text};

/// Number of pods that use each claim, by `namespace/name`.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    users: HashMap<Text, usize>,
}

impl Usage {
    /// Whether a pod uses the claim.
    #[must_use]
    pub fn is_used(&self, claim: &str) -> bool {
        self.users.contains_key(claim)
    }

    /// The part about one claim.
    #[must_use]
    pub fn of(&self, claim: &Text) -> Self {
        Self {
            users: only(self.users.get_key_value(claim)),
        }
    }

    /// The cached pod changed from `old` to `new`; `None` means that it uses no claims. Returns the
    /// claims that no pod uses any more.
    pub fn changed(&mut self, old: Option<&Pod>, new: Option<&Pod>) -> Vec<Text> {
        for claim in new.into_iter().flat_map(Pod::claim_keys) {
            *self.users.entry(claim).or_default() += 1;
        }
        let mut freed = Vec::new();
        for claim in old.into_iter().flat_map(Pod::claim_keys) {
            if let Some(users) = self.users.get_mut(&claim) {
                *users = users.saturating_sub(1);
                if *users == 0 {
                    self.users.remove(&claim);
                    freed.push(claim);
                }
            }
        }
        freed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(namespace: &str, claims: &[&str]) -> Pod {
        Pod {
            namespace: namespace.into(),
            claims: claims.iter().map(|name| Text::from(*name)).collect(),
        }
    }

    #[test]
    fn z_91_to_93_a_claim_is_free_when_its_last_pod_has_gone() {
        let mut usage = Usage::default();
        let (first, second) = (pod("ns", &["c1", "c2"]), pod("ns", &["c1"]));
        assert!(usage.changed(None, Some(&first)).is_empty());
        assert!(usage.changed(None, Some(&second)).is_empty());
        assert!(usage.is_used("ns/c1") && usage.is_used("ns/c2"));
        assert!(!usage.is_used("other/c1"), "z_93: another namespace");
        assert!(usage.changed(Some(&second), Some(&second)).is_empty());
        assert_eq!(usage.changed(Some(&first), None), [Text::from("ns/c2")]);
        assert_eq!(usage.changed(Some(&second), None), [Text::from("ns/c1")]);
        assert!(!usage.is_used("ns/c1"));
        assert!(usage.changed(Some(&second), None).is_empty(), "told twice");
    }

    #[test]
    fn a_pod_that_names_a_claim_twice_is_counted_alike_both_ways() {
        let mut usage = Usage::default();
        let twice = pod("ns", &["c1", "c1"]);
        usage.changed(None, Some(&twice));
        assert_eq!(usage.changed(Some(&twice), None), [Text::from("ns/c1")]);
        assert!(!usage.is_used("ns/c1"));
    }
}
