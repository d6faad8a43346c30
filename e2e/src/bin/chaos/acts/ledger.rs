//! Facts about volumes and snapshots in the storage that users' and administrators' acts imply: which ones must exist
//! whatever the objects say, and which ones may or may not.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use e2e::api::text;
use serde_json::Value;

/// The finalizer of a content that is bound.
pub(crate) const BOUND: &str =
    "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection";

/// The fate of a snapshot whose content is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is deleted with its content.
    Held,
    /// The content's policy keeps it.
    Stays,
    /// Unknown: the content may disappear before a controller has seen it.
    Free,
}

impl Fate {
    /// The fate that the content's state at its deletion implies.
    pub(crate) fn when_deleted(content: &Value) -> Self {
        if text(content, "/spec/deletionPolicy") == Some("Retain") {
            return Self::Stays;
        }
        let finalizers = content.pointer("/metadata/finalizers");
        let protected = finalizers.is_some_and(|all| all.to_string().contains(BOUND));
        let found = text(content, "/status/snapshotHandle").is_some();
        let bound =
            { text(content, "/spec/volumeSnapshotRef/uid") }.is_some_and(|it| !it.is_empty());
        if protected && (found || bound) {
            Self::Held
        } else {
            Self::Free
        }
    }
}

/// Facts about volumes and snapshots, by handle or by the name that the driver got.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// It may exist or not, and no object has to refer to it.
    pub(crate) free: BTreeSet<String>,
    /// It must exist, with or without an object.
    pub(crate) kept: BTreeSet<String>,
    /// UIDs of claims whose unfinished calls were deleted with the journal.
    pub(crate) given_up: BTreeSet<String>,
}

/// [`Known`], shared by several threads.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Known>);

impl Ledger {
    fn with<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A copy of the current facts.
    pub(crate) fn known(&self) -> Known {
        self.with(|known| known.clone())
    }

    /// Records that it may exist or not.
    pub(crate) fn free(&self, it: &str) {
        self.with(|known| {
            known.kept.remove(it);
            known.free.insert(it.to_owned());
        });
    }

    /// Records that nobody may delete it.
    pub(crate) fn keep(&self, it: &str) {
        self.with(|known| {
            known.free.remove(it);
            known.kept.insert(it.to_owned());
        });
    }

    /// Records that an object refers to it, and that it is deleted with the object.
    pub(crate) fn hold(&self, it: &str) {
        self.with(|known| {
            known.free.remove(it);
            known.kept.remove(it);
        });
    }

    /// Records that the journal's entries of these claims were deleted.
    pub(crate) fn give_up(&self, claims: impl IntoIterator<Item = String>) {
        self.with(|known| known.given_up.extend(claims));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_snapshot_goes_with_a_content_that_somebody_has_seen() {
        let content = |policy: &str, finalizers: &[&str], uid: &str, handle: Option<&str>| {
            Fate::when_deleted(&json!({
                "metadata": { "finalizers": finalizers },
                "spec": { "deletionPolicy": policy, "volumeSnapshotRef": { "uid": uid } },
                "status": { "snapshotHandle": handle },
            }))
        };
        for (content, fate) in [
            (content("Delete", &[BOUND], "u1", None), Fate::Held),
            (content("Delete", &[BOUND], "", Some("s1")), Fate::Held),
            (content("Delete", &[BOUND], "", None), Fate::Free),
            (content("Delete", &["a/b"], "u1", Some("s1")), Fate::Free),
            (content("Delete", &[], "u1", Some("s1")), Fate::Free),
            (content("Retain", &[BOUND], "u1", Some("s1")), Fate::Stays),
            (content("Retain", &[], "", None), Fate::Stays),
        ] {
            assert_eq!(content, fate);
        }
    }

    #[test]
    fn the_last_word_counts() {
        let ledger = Ledger::default();
        let kept = |ledger: &Ledger| ledger.known().kept.contains("s1");
        let free = |ledger: &Ledger| ledger.known().free.contains("s1");
        ledger.free("s1");
        ledger.keep("s1");
        assert!(kept(&ledger) && !free(&ledger));
        ledger.free("s1");
        assert!(!kept(&ledger) && free(&ledger));
        ledger.hold("s1");
        assert!(!kept(&ledger) && !free(&ledger));
    }
}
