//! When finalizers on data sources are removed: of claims that are cloned, and snapshots that are restored.
//!
//! All claims of the cluster, of every driver, determine whether a source is still needed, long after the attempt that
//! needed it.

use std::collections::HashSet;

use crate::keys::{CLONE_FINALIZER, SNAPSHOT_GROUP};
use crate::model::{Claim, ClaimPhase, DataSource, Snapshot, Text};
use crate::plan::request;
use crate::plan::{Driver, Settings};

/// Namespace and name of an object.
pub type NamespacedName = (Text, Text);

/// State of [`CLONE_FINALIZER`] on a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// Nothing to do.
    None,
    /// The finalizer has to be removed.
    Due,
    /// This claim is still being cloned from it.
    Needed {
        /// `namespace/name`
        by: Text,
    },
}

/// Whether the finalizer on `claim` may have to be removed. A source that is not being deleted keeps it.
#[must_use]
pub fn is_ending_source(claim: &Claim) -> bool {
    claim.deleting && claim.has_finalizer(CLONE_FINALIZER)
}

/// Decides about the finalizer on `source`. `claims` are all claims that may still get their volume; `is_ours` tells
/// for which of them this process makes it. `busy` are the claims that this process is provisioning, including deleted
/// ones of which a call has an unknown outcome.
#[must_use]
pub fn release<'a>(
    source: &Claim,
    claims: impl IntoIterator<Item = &'a Claim>,
    is_ours: impl Fn(&Claim) -> bool,
    busy: impl IntoIterator<Item = &'a Claim>,
) -> Release {
    if !is_ending_source(source) {
        return Release::None;
    }
    // This process does not know how far other provisioners are with their claims.
    let waits = |claim: &&Claim| {
        needs(claim, source) && (precedes_deletion(claim, source) || !is_ours(claim))
    };
    let waiting = claims.into_iter().find(waits);
    match waiting.or_else(|| busy.into_iter().find(|claim| needs(claim, source))) {
        Some(claim) => Release::Needed { by: claim.key() },
        None => Release::Due,
    }
}

/// The claim that `claim` is a clone of. As upstream always did, the field `dataSourceRef` does not count.
#[must_use]
pub fn clone_source(claim: &Claim) -> Option<NamespacedName> {
    let source = claim.data_source.as_ref()?;
    (&*source.kind == "PersistentVolumeClaim")
        .then(|| (claim.namespace.clone(), source.name.clone()))
}

fn needs(claim: &Claim, source: &Claim) -> bool {
    claim.phase == ClaimPhase::Pending
        && clone_source(claim)
            .is_some_and(|(namespace, name)| namespace == source.namespace && name == source.name)
}

/// Whether `source` is being deleted, and stays until its clone `claim` is made. If that clone were refused, each would
/// wait for the other for ever.
#[must_use]
pub fn is_held_for(source: &Claim, claim: &Claim) -> bool {
    is_ending_source(source) && needs(claim, source) && precedes_deletion(claim, source)
}

/// Whether the claim was created before `source` was deleted, so that a process that sees the deletion knows the claim:
/// both come over one watch. A provisioner that is removing the finalizer, maybe another driver's, may not know a later
/// claim. The times are whole seconds, and within one second their order is unknown: such a claim is refused, since
/// losing a volume is worse than not making a clone.
fn precedes_deletion(claim: &Claim, source: &Claim) -> bool {
    matches!((claim.created, source.deleted), (Some(created), Some(deleted)) if created < deleted)
}

/// The source whose finalizer may be due because of this change of a claim: the claim was being cloned from it, and is
/// no longer. `after` is `None` for a claim that is gone.
#[must_use]
pub fn freed_source(before: &Claim, after: Option<&Claim>) -> Option<NamespacedName> {
    let pending = |claim: &Claim| claim.phase == ClaimPhase::Pending;
    // A new claim of the same name may have another source.
    let same = after.filter(|after| after.uid == before.uid);
    (pending(before) && !same.is_some_and(pending)).then(|| clone_source(before))?
}

/// Name of the PersistentVolume that is made for the claim; `None` for a claim of another driver.
#[must_use]
pub fn volume_of(claim: &Claim, driver: &Driver, settings: &Settings) -> Option<String> {
    let ours = claim
        .provisioner()
        .is_some_and(|named| driver.is_named(named));
    ours.then(|| request::volume_name(settings, &claim.uid).ok())?
}

/// Whether the claim names one of these snapshots.
#[must_use]
pub fn names_one_of(claim: &Claim, snapshots: &[NamespacedName]) -> bool {
    snapshots_of(claim).any(|snapshot| snapshots.contains(&snapshot))
}

/// Snapshots from which open claims are being restored. `has_volume` tells for which claims the PersistentVolume
/// exists: they may wait for their binding, but do not need the snapshot any more.
#[must_use]
pub fn restored<'a>(
    claims: impl IntoIterator<Item = &'a Claim>,
    has_volume: impl Fn(&Claim) -> bool,
) -> HashSet<NamespacedName> {
    let waiting = claims
        .into_iter()
        .filter(|claim| waits(claim) && !has_volume(claim));
    waiting.flat_map(snapshots_of).collect()
}

/// Whether another claim is being restored from the same snapshot as `claim`. If its call has an unknown outcome, it
/// can be repeated only while the snapshot exists. `has_volume` is as in [`restored`]: of two claims that finish at the
/// same time, neither must wait for the other's binding.
#[must_use]
pub fn is_shared<'a>(
    (namespace, name): (&str, &str),
    claim: &Claim,
    claims: impl IntoIterator<Item = &'a Claim>,
    has_volume: impl Fn(&Claim) -> bool,
) -> bool {
    let is_it = |key: NamespacedName| *key.0 == *namespace && *key.1 == *name;
    let mut others = claims.into_iter().filter(|other| other.uid != claim.uid);
    others.any(|other| waits(other) && snapshots_of(other).any(is_it) && !has_volume(other))
}

/// Whether the claim waits for its volume, or a volume may be made for it that it does not need any more.
fn waits(claim: &Claim) -> bool {
    claim.phase.is_open()
}

/// The snapshots that the claim names.
pub fn snapshots_of(claim: &Claim) -> impl Iterator<Item = NamespacedName> {
    let named = |source: &DataSource, namespace: Option<&Text>| {
        let group = source.group.as_deref();
        let snapshot =
            &*source.kind == "VolumeSnapshot" && group.is_none_or(|group| group == SNAPSHOT_GROUP);
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        let namespace = namespace.unwrap_or(&claim.namespace).clone();
        snapshot.then(|| (namespace, source.name.clone()))
    };
    let source = claim
        .data_source
        .as_ref()
        .and_then(|source| named(source, None));
    let reference = claim
        .data_source_ref
        .as_ref()
        .and_then(|source| named(source, source.namespace.as_ref()));
    [source, reference].into_iter().flatten()
}

/// Snapshots whose finalizer no claim needs any more, given those that are being restored.
pub fn orphans<'a>(
    snapshots: impl IntoIterator<Item = &'a Snapshot>,
    restored: &HashSet<NamespacedName>,
) -> impl Iterator<Item = &'a Snapshot> {
    snapshots.into_iter().filter(|snapshot| {
        let key = (snapshot.namespace.clone(), snapshot.name.clone());
        snapshot.is_protected() && !restored.contains(&key)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::*;
    use crate::keys::{SNAPSHOT_FINALIZER, STORAGE_PROVISIONER};
    use crate::model::Pairs;

    fn claim(namespace: &str, name: &str, phase: ClaimPhase) -> Claim {
        Claim {
            namespace: namespace.into(),
            name: name.into(),
            phase,
            ..Claim::default()
        }
    }

    fn of(group: Option<&str>, kind: &str, name: &str, namespace: Option<&str>) -> DataSource {
        DataSource {
            group: group.map(Into::into),
            kind: kind.into(),
            name: name.into(),
            namespace: namespace.map(Into::into),
        }
    }

    fn clone(namespace: &str, name: &str, phase: ClaimPhase) -> Claim {
        Claim {
            data_source: Some(of(None, "PersistentVolumeClaim", "src", None)),
            ..claim(namespace, name, phase)
        }
    }

    /// A source claim that was deleted in second 10.
    fn source() -> Claim {
        Claim {
            deleting: true,
            deleted: Timestamp::from_second(10).ok(),
            finalizers: Arc::from(["a/b".into(), Text::from(CLONE_FINALIZER)]),
            ..claim("ns1", "src", ClaimPhase::Bound)
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "one table")]
    fn a_source_is_released_when_no_clone_is_pending() {
        use ClaimPhase::{Bound, Pending, Unset};
        let needed = |by: &str| Release::Needed { by: by.into() };
        let by_reference = Claim {
            data_source_ref: Some(of(None, "PersistentVolumeClaim", "src", None)),
            ..claim("ns1", "c1", Pending)
        };
        let of_another = Claim {
            data_source: Some(of(None, "PersistentVolumeClaim", "other", None)),
            ..claim("ns1", "c1", Pending)
        };
        let of_a_snapshot = Claim {
            data_source: Some(of(Some(SNAPSHOT_GROUP), "VolumeSnapshot", "src", None)),
            ..claim("ns1", "c1", Pending)
        };
        let rows = [
            (
                "229",
                source(),
                vec![clone("ns1", "c1", Bound)],
                Release::Due,
            ),
            (
                "230",
                source(),
                vec![clone("ns1", "c1", Bound), clone("ns1", "c2", Pending)],
                needed("ns1/c2"),
            ),
            (
                "231",
                source(),
                vec![clone("ns2", "c1", Pending)],
                Release::Due,
            ),
            (
                "232",
                Claim {
                    deleting: false,
                    ..source()
                },
                vec![],
                Release::None,
            ),
            (
                "14.1 no finalizer",
                Claim {
                    finalizers: Arc::from([]),
                    ..source()
                },
                vec![],
                Release::None,
            ),
            (
                "14.1 dataSourceRef only",
                source(),
                vec![by_reference],
                Release::Due,
            ),
            (
                "14.1 phase unset",
                source(),
                vec![clone("ns1", "c1", Unset)],
                Release::Due,
            ),
            ("another source", source(), vec![of_another], Release::Due),
            ("another kind", source(), vec![of_a_snapshot], Release::Due),
        ];
        for (row, source, claims, expected) in rows {
            let nobodys = |_: &Claim| false;
            assert_eq!(
                release(&source, &claims, nobodys, []),
                expected,
                "row {row}"
            );
            assert_eq!(
                is_ending_source(&source),
                expected != Release::None,
                "row {row}"
            );
        }
    }

    /// A clone of this process that was created with the deletion or after it is refused, and delays nothing.
    #[test]
    fn row_230_a_claim_that_came_after_the_deletion_does_not_hold_its_source() {
        let held = || Release::Needed {
            by: "ns1/c1".into(),
        };
        for (row, second, ours, busy, expected) in [
            ("before", Some(9), true, false, held()),
            ("in the same second", Some(10), true, false, Release::Due),
            ("after", Some(11), true, false, Release::Due),
            ("nobody knows when", None, true, false, Release::Due),
            ("the same, being filled", Some(10), true, true, held()),
            ("after, being filled", Some(11), true, true, held()),
            ("another process's, before", Some(9), false, false, held()),
            ("another process's, after", Some(11), false, false, held()),
        ] {
            let claim = Claim {
                created: second.and_then(|second| Timestamp::from_second(second).ok()),
                ..clone("ns1", "c1", ClaimPhase::Pending)
            };
            let busy = busy.then_some(&claim);
            let found = release(&source(), [&claim], |_| ours, busy);
            assert_eq!(found, expected, "{row}");
            let known = release(&source(), [], |_| ours, busy);
            assert_eq!(known == held(), busy.is_some(), "{row}");
        }
    }

    #[test]
    fn a_clone_that_is_done_brings_its_source_back() {
        use ClaimPhase::{Bound, Pending};
        let key = Some(("ns1".into(), "src".into()));
        let pending = clone("ns1", "c1", Pending);
        assert_eq!(
            freed_source(&pending, Some(&clone("ns1", "c1", Bound))),
            key
        );
        assert_eq!(freed_source(&pending, None), key);
        assert_eq!(freed_source(&pending, Some(&pending)), None);
        let another = Claim {
            uid: "another".into(),
            ..pending.clone()
        };
        assert_eq!(
            freed_source(&pending, Some(&another)),
            key,
            "another one of the name is there"
        );
        assert_eq!(freed_source(&clone("ns1", "c1", Bound), None), None);
        assert_eq!(freed_source(&claim("ns1", "c1", Pending), None), None);
    }

    #[test]
    fn snapshots_are_swept_unless_an_open_claim_names_them() {
        use ClaimPhase::{Bound, Pending, Unset};
        let other = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
        let snapshot = |finalizers: &[&str]| Snapshot {
            namespace: "ns1".into(),
            name: "s1".into(),
            finalizers: finalizers.iter().map(|held| Text::from(*held)).collect(),
            ..Snapshot::default()
        };
        let kind = |group| of(group, "VolumeSnapshot", "s1", None);
        let by_source = |phase, group| Claim {
            data_source: Some(kind(group)),
            ..claim("ns1", "c1", phase)
        };
        let by_reference = |namespace: &str, target: Option<&str>| Claim {
            data_source_ref: Some(of(Some(SNAPSHOT_GROUP), "VolumeSnapshot", "s1", target)),
            ..claim(namespace, "c1", Pending)
        };
        let ours = snapshot(&[SNAPSHOT_FINALIZER, other]);
        let rows = [
            ("234", &ours, by_source(Bound, Some(SNAPSHOT_GROUP)), true),
            (
                "235",
                &ours,
                by_source(Pending, Some(SNAPSHOT_GROUP)),
                false,
            ),
            ("235 phase empty", &ours, by_source(Unset, None), false),
            ("235 reference", &ours, by_reference("ns1", None), false),
            (
                "235 reference, empty namespace",
                &ours,
                by_reference("ns1", Some("")),
                false,
            ),
            (
                "235 cross-namespace",
                &ours,
                by_reference("ns2", Some("ns1")),
                false,
            ),
            ("other namespace", &ours, by_reference("ns2", None), true),
            ("236", &ours, by_source(Pending, Some("example.com")), true),
            (
                "not ours",
                &snapshot(&[other]),
                by_source(Bound, None),
                false,
            ),
        ];
        for (row, snapshot, claim, swept) in rows {
            let found = |done| {
                let used = restored([&claim], |_| done);
                orphans([snapshot], &used).count() == 1
            };
            assert_eq!(found(false), swept, "row {row}");
            assert_eq!(found(true), snapshot.is_protected(), "FP-5, {row}");
        }
    }

    #[test]
    fn a_snapshot_that_another_claim_is_made_from_is_not_released() {
        let of = |uid: &str, phase| Claim {
            uid: uid.into(),
            data_source: Some(of(Some(SNAPSHOT_GROUP), "VolumeSnapshot", "s1", None)),
            ..claim("ns1", "c1", phase)
        };
        let done = of("1", ClaimPhase::Pending);
        let rows = [
            ("itself", done.clone(), false),
            ("another", of("2", ClaimPhase::Pending), true),
            ("another, done", of("2", ClaimPhase::Bound), false),
        ];
        for (row, other, shared) in rows {
            let found = |name, made| is_shared(("ns1", name), &done, [&other], |_| made);
            assert_eq!(found("s1", false), shared, "{row}");
            assert!(!found("s2", false), "{row}");
            assert!(!found("s1", true), "FP-5, {row}");
        }
    }

    #[test]
    fn fp_5_whose_volume_is_known() {
        let settings = Settings::default();
        let named = |claim: &Claim| volume_of(claim, &crate::testing::driver(), &settings);
        let ours = Claim {
            uid: "u".into(),
            annotations: [(STORAGE_PROVISIONER, "test-driver")].into_iter().collect(),
            ..Claim::default()
        };
        assert_eq!(named(&ours).as_deref(), Some("pvc-u"));
        let of_another = Claim {
            annotations: [(STORAGE_PROVISIONER, "other")].into_iter().collect(),
            ..ours.clone()
        };
        assert_eq!(named(&of_another), None, "its names are its own affair");
        let without = Claim {
            annotations: Pairs::default(),
            ..ours
        };
        assert_eq!(named(&without), None);
    }
}
