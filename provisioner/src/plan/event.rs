//! Which changes of objects requeue a claim or a volume.
//!
//! This decides how often the process calls the driver and the API server: its own writes must not wake it, nor changes
//! without news, or else back-off would have no effect.

use super::Driver;
use super::delete;
use crate::keys::{MIGRATED_TO, VOLUME_FINALIZER};
use crate::model::{Claim, Volume, VolumeDetail, VolumePhase};

/// Whether the change from `before` to `after` requeues the claim. Every change does, since it may be the user's fix; a
/// new `resourceVersion` alone does not.
#[must_use]
pub fn is_work_for_claim(before: Option<&Claim>, after: &Claim, driver: &Driver) -> bool {
    if !may_be_ours(after, driver) {
        return false;
    }
    let seen = |claim: &Claim| Claim {
        version: 0,
        ..claim.clone()
    };
    before.is_none_or(|before| seen(before) != seen(after))
}

/// Whether the claim names this driver, and so may be this driver's.
#[must_use]
pub fn may_be_ours(claim: &Claim, driver: &Driver) -> bool {
    claim.provisioner() == Some(&*driver.name)
        || claim.annotations.get(MIGRATED_TO) == Some(&*driver.name)
}

/// Whether the change from `before` to `after` requeues the volume.
#[must_use]
pub fn is_work_for_volume(before: Option<&Volume>, after: &Volume, driver: &Driver) -> bool {
    let due = match after {
        Volume::NameOnly => false,
        Volume::Finalizer(held) => delete::is_ours(&held.owner, driver),
        Volume::Deletable(volume) => {
            let waits = volume.phase != VolumePhase::Released && !is_upkeep(volume);
            !waits && delete::concerns(&volume.owner, driver)
        }
    };
    due && before.is_none_or(|before| seen(before) != seen(after))
}

/// Whether the policy keeps the volume, and its finalizer has to be removed.
fn is_upkeep(volume: &VolumeDetail) -> bool {
    use crate::model::Reclaim::{Delete, Other, Recycle, Retain};
    match volume.reclaim {
        Retain | Recycle => volume.is_protected(),
        Delete | Other => false,
    }
}

/// The part of a volume that decisions depend on, without other programs' finalizers, which come and go.
fn seen(volume: &Volume) -> Volume {
    match volume {
        Volume::NameOnly | Volume::Finalizer(..) => volume.clone(),
        Volume::Deletable(detail) => {
            let ours = detail
                .finalizers
                .iter()
                .filter(|held| ***held == *VOLUME_FINALIZER);
            let finalizers = ours.cloned().collect();
            let detail = VolumeDetail {
                version: 0,
                finalizers,
                ..(**detail).clone()
            };
            Volume::Deletable(detail.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::keys::STORAGE_PROVISIONER;
    use crate::model::{ClaimPhase, FinalizerAction, FinalizerDue, Owner, Reclaim, Text};
    use crate::testing::driver;

    fn claim(provisioner: &str) -> Claim {
        Claim {
            name: "c1".into(),
            version: 1,
            annotations: [(STORAGE_PROVISIONER, provisioner)].into_iter().collect(),
            ..Claim::default()
        }
    }

    #[test]
    fn every_change_of_a_claim_of_ours_is_work() {
        let ours = claim("test-driver");
        let changed = Claim {
            annotations: [(STORAGE_PROVISIONER, "test-driver"), ("a", "b")]
                .into_iter()
                .collect(),
            ..ours.clone()
        };
        let newer = Claim {
            version: 2,
            ..ours.clone()
        };
        let migrated = Claim {
            annotations: [(MIGRATED_TO, "test-driver")].into_iter().collect(),
            ..claim("")
        };
        let pending = Claim {
            phase: ClaimPhase::Pending,
            ..ours.clone()
        };
        let rows = [
            ("32 new", None, &ours, true),
            ("201 updated", Some(&ours), &changed, true),
            ("status", Some(&ours), &pending, true),
            ("version alone", Some(&ours), &newer, false),
            ("45 another driver's", None, &claim("other"), false),
            ("35 nobody's", None, &Claim::default(), false),
            ("44 migrated", None, &migrated, true),
        ];
        for (row, before, after, expected) in rows {
            assert_eq!(
                is_work_for_claim(before, after, &driver()),
                expected,
                "{row}"
            );
        }
    }

    fn detail(phase: VolumePhase, reclaim: Reclaim, finalizers: &[&str]) -> VolumeDetail {
        VolumeDetail {
            phase,
            reclaim,
            version: 1,
            finalizers: finalizers.iter().map(|held| Text::from(*held)).collect(),
            owner: owner("test-driver"),
            ..VolumeDetail::default()
        }
    }

    fn owner(driver: &str) -> Owner {
        Owner {
            provisioned_by: Some(driver.into()),
            migrated_to: None,
            csi_driver: Some(driver.into()),
            in_tree: false,
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "one table")]
    fn volumes_are_work_when_something_is_due() {
        use Reclaim::{Delete, Retain};
        use VolumePhase::{Bound, Released};
        const F: &str = VOLUME_FINALIZER;
        let ending = |detail: VolumeDetail| Volume::Deletable(detail.into());
        let released = ending(detail(Released, Delete, &[F, "a/b"]));
        let freed = ending(VolumeDetail {
            version: 2,
            ..detail(Released, Delete, &[F])
        });
        let bound = ending(VolumeDetail {
            deleting: true,
            ..detail(Bound, Delete, &[F])
        });
        let kept = ending(VolumeDetail {
            deleting: true,
            ..detail(Bound, Retain, &[F])
        });
        let foreign = ending(VolumeDetail {
            owner: owner("other"),
            ..detail(Released, Delete, &[F])
        });
        let add_of = |uid: &str, owner| {
            Volume::Finalizer(Arc::new(FinalizerDue {
                action: FinalizerAction::Add,
                owner,
                uid: uid.into(),
            }))
        };
        let add = |driver| add_of("u1", owner(driver));
        let in_tree = |moved: bool| Owner {
            provisioned_by: Some("plugin".into()),
            migrated_to: moved.then(|| "test-driver".into()),
            csi_driver: Some("test-driver".into()),
            in_tree: true,
        };
        let unmoved = ending(VolumeDetail {
            owner: in_tree(false),
            ..detail(Released, Delete, &[F])
        });
        let moved = ending(VolumeDetail {
            owner: in_tree(true),
            ..detail(Released, Delete, &[F])
        });
        let add_unmoved = add_of("u1", in_tree(false));
        let add_moved = add_of("u1", in_tree(true));
        let rows = [
            ("203", None, &released, true),
            ("204", None, &foreign, false),
            ("213 still bound", None, &bound, false),
            ("213 released", Some(&bound), &released, true),
            ("209", None, &kept, true),
            ("210", None, &add("test-driver"), true),
            ("210 another's", None, &add("other"), false),
            (
                "210 unchanged",
                Some(&add("test-driver")),
                &add("test-driver"),
                false,
            ),
            (
                "210 another object",
                Some(&add("test-driver")),
                &add_of("u2", owner("test-driver")),
                true,
            ),
            ("quiet", None, &Volume::NameOnly, false),
            ("M-74", None, &unmoved, false),
            ("M-74 moved now", Some(&unmoved), &moved, true),
            ("M-75", None, &add_unmoved, false),
            ("M-75 moved now", Some(&add_unmoved), &add_moved, true),
            ("another's finalizer went", Some(&released), &freed, false),
            ("unchanged", Some(&released), &released, false),
        ];
        for (row, before, after, expected) in rows {
            assert_eq!(
                is_work_for_volume(before, after, &driver()),
                expected,
                "{row}"
            );
        }
    }
}
