//! Pod: the claims that it uses.
//!
//! Pods are the most numerous objects of a cluster: the cache holds only those that use claims and
//! have not ended, and of them only this record.

use super::{List, Text};

/// A `core/v1` Pod that uses claims and has not ended. Other pods have no record; a pod that ends
/// leaves the cache as if it were deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.namespace`.
    pub namespace: Text,
    /// `claimName` of each `spec.volumes[].persistentVolumeClaim`. Claims of ephemeral volumes are
    /// not included.
    pub claims: List,
}

impl Pod {
    /// The record; `None` for a pod without claims, or one that has ended. `phase` is
    /// `status.phase`.
    #[must_use]
    pub fn new(namespace: Text, phase: &str, claims: List) -> Option<Self> {
        let ended = matches!(phase, "Succeeded" | "Failed");
        (!ended && !claims.is_empty()).then_some(Self { namespace, claims })
    }

    /// Keys of the claims it uses, `namespace/name`.
    pub fn claim_keys(&self) -> impl Iterator<Item = Text> + '_ {
        let namespace = &self.namespace;
        self.claims
            .iter()
            .map(move |name| format!("{namespace}/{name}").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z_92_pods_that_have_ended_use_nothing() {
        let claims = || -> List { [Text::from("c1")].into_iter().collect() };
        for (phase, kept) in [
            ("", true),
            ("Pending", true),
            ("Running", true),
            ("Unknown", true),
            ("Succeeded", false),
            ("Failed", false),
        ] {
            assert_eq!(
                Pod::new("ns".into(), phase, claims()).is_some(),
                kept,
                "{phase}"
            );
        }
        assert_eq!(Pod::new("ns".into(), "Running", List::from([])), None);
        let pod = Pod::new("ns".into(), "Running", claims()).unwrap();
        assert_eq!(pod.claim_keys().collect::<Vec<_>>(), [Text::from("ns/c1")]);
    }
}
