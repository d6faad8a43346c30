//! Lifetimes of snapshots, and of volumes and snapshots that administrators and backup tools make: decided beforehand,
//! like the claims. Pure: the same for the same seed.

use super::{Dice, NAMESPACES};

/// An action of a lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Create a VolumeSnapshot of the claim with this number, with a class that deletes or retains.
    Take { claim: u64, retain: bool },
    /// Create a claim from the VolumeSnapshot.
    Restore,
    /// Take a snapshot by hand and create a VolumeSnapshotContent for it, with `marks` that an earlier lifetime has
    /// left.
    Bring { retain: bool, marks: u8 },
    /// Create a VolumeSnapshot that names this content.
    Show,
    /// Delete the VolumeSnapshot.
    Drop,
    /// Change the content's policy to Retain.
    Retain,
    /// Remove the finalizers of VolumeSnapshot and content.
    CutLoose,
    /// Delete the content.
    Remove,
    /// Recreate the content as it was read, and the VolumeSnapshot.
    Again,
    /// Make a volume by hand and create a PersistentVolume for it.
    Make { retain: bool },
    /// Create a claim for that volume.
    Claim,
    /// Delete that claim.
    Unclaim,
    /// Delete the PersistentVolume.
    RemoveVolume,
    /// Recreate the PersistentVolume.
    MakeAgain,
}

/// Marks of a content that was made by hand.
pub(crate) mod mark {
    /// The annotation of a create call that may have had an effect.
    pub(crate) const BEING_CREATED: u8 = 1;
    /// The annotation that its VolumeSnapshot is being deleted.
    pub(crate) const BEING_DELETED: u8 = 2;
    /// The annotation of a member of a group.
    pub(crate) const MEMBER: u8 = 4;
    /// The finalizer of a bound content.
    pub(crate) const PROTECTED: u8 = 8;
    /// Number of sets of marks.
    pub(crate) const SETS: u8 = 16;
}

/// An action with its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LifetimeStep {
    /// Milliseconds since the start of the run.
    pub(crate) at_ms: u64,
    /// Number of the lifetime.
    pub(crate) life: u64,
    /// The action.
    pub(crate) action: Action,
}

/// All actions, by time; those of one lifetime keep their order.
pub(crate) fn lifetimes(seed: u64, seconds: u64, claims: u64, lifetimes: u64) -> Vec<LifetimeStep> {
    let mut dice = Dice::new(seed, "lifetimes");
    let end = seconds * 1000;
    let mut all = Vec::new();
    for life in 0..lifetimes {
        let born = dice.between(3_000, (end * 85 / 100).max(3_000));
        let actions = actions(&mut dice, source(life, born * claims / end.max(1)), born);
        let step = |(at_ms, action)| LifetimeStep {
            at_ms,
            life,
            action,
        };
        all.extend(actions.into_iter().map(step).filter(|it| it.at_ms < end));
    }
    all.sort_by_key(|step| step.at_ms);
    all
}

/// A recently created claim in the lifetime's namespace, if there are that many.
fn source(life: u64, born: u64) -> u64 {
    let row = (born / NAMESPACES).saturating_sub(1 + life / NAMESPACES % 4);
    row * NAMESPACES + life % NAMESPACES
}

fn actions(dice: &mut Dice, claim: u64, born: u64) -> Vec<(u64, Action)> {
    let retain = dice.percent(25);
    let marks = u8::try_from(dice.between(0, u64::from(mark::SETS) - 1)).unwrap_or(0);
    let mut story = Story {
        at: born,
        actions: Vec::new(),
    };
    match dice.between(1, 100) {
        1..=35 => {
            story.then(0, Action::Take { claim, retain });
            if dice.percent(30) {
                story.then(dice.between(1_000, 8_000), Action::Restore);
            }
            if dice.percent(75) {
                let late = if dice.percent(35) {
                    (5, 1_500)
                } else {
                    (3_000, 60_000)
                };
                story.then(dice.between(late.0, late.1), Action::Drop);
            }
        }
        // A backup tool that only checks whether the snapshot exists.
        36..=47 => {
            story.then(0, Action::Bring { retain, marks });
            story.then(dice.between(300, 3_000), Action::Remove);
        }
        48..=59 => {
            story.then(0, Action::Bring { retain, marks });
            story.then(dice.between(0, 3_000), Action::Show);
            if dice.percent(60) {
                story.then(dice.between(50, 30_000), Action::Drop);
            }
        }
        60..=71 => {
            story.first(dice, claim, marks);
            story.then(dice.between(2_000, 12_000), Action::Retain);
            story.then(dice.between(50, 1_000), Action::Drop);
            story.then(dice.between(50, 3_000), Action::Remove);
            story.then(dice.between(50, 3_000), Action::Again);
            if dice.percent(60) {
                story.then(dice.between(50, 20_000), Action::Drop);
            }
        }
        72..=81 => {
            story.first(dice, claim, marks);
            let wait = dice.between(500, 12_000);
            if dice.percent(60) {
                story.then(wait, Action::Retain);
            }
            let order = if dice.percent(50) {
                [Action::CutLoose, Action::Drop]
            } else {
                [Action::Drop, Action::CutLoose]
            };
            for action in order.into_iter().chain([Action::Remove]) {
                story.then(dice.between(20, 1_000), action);
            }
        }
        _ => story.of_a_volume(dice),
    }
    story.actions
}

/// Actions with their times, in order.
struct Story {
    at: u64,
    actions: Vec<(u64, Action)>,
}

impl Story {
    fn then(&mut self, later: u64, action: Action) {
        self.at += later;
        self.actions.push((self.at, action));
    }

    /// A snapshot that the driver takes or that is made by hand, with its VolumeSnapshot.
    fn first(&mut self, dice: &mut Dice, claim: u64, marks: u8) {
        let retain = false;
        if dice.percent(50) {
            self.then(0, Action::Take { claim, retain });
        } else {
            self.then(0, Action::Bring { retain, marks });
            self.then(dice.between(0, 500), Action::Show);
        }
    }

    fn of_a_volume(&mut self, dice: &mut Dice) {
        let retain = dice.percent(60);
        self.then(0, Action::Make { retain });
        self.then(dice.between(0, 500), Action::Claim);
        self.then(dice.between(1_000, 20_000), Action::Unclaim);
        if retain {
            self.then(dice.between(50, 5_000), Action::RemoveVolume);
            if dice.percent(60) {
                self.then(dice.between(50, 3_000), Action::MakeAgain);
                self.then(dice.between(0, 500), Action::Claim);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all() -> Vec<LifetimeStep> {
        lifetimes(1, 480, 1000, 500)
    }

    #[test]
    fn a_seed_gives_the_same_lives() {
        assert_eq!(lifetimes(5, 60, 100, 50), lifetimes(5, 60, 100, 50));
        assert_ne!(lifetimes(5, 60, 100, 50), lifetimes(6, 60, 100, 50));
        assert_eq!(lifetimes(5, 60, 100, 0), []);
    }

    #[test]
    fn there_is_some_of_everything_and_a_life_begins_with_what_is_made() {
        let all = all();
        assert!(all.is_sorted_by_key(|step| step.at_ms));
        let names: BTreeSet<String> = { all.iter() }
            .map(|step| format!("{:?}", step.action))
            .map(|name| name.split(' ').next().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(names.len(), 14, "{names:?}");
        let mut begun = BTreeSet::new();
        for step in &all {
            if begun.insert(step.life) {
                let makes = matches!(
                    step.action,
                    Action::Take { .. } | Action::Bring { .. } | Action::Make { .. }
                );
                assert!(makes, "{step:?}");
            }
        }
        assert!(begun.len() > 490);
    }

    /// The quickest way to leak a snapshot: its content is deleted while the driver is still looking for it.
    #[test]
    fn contents_go_within_seconds_and_carry_every_set_of_marks() {
        let all = all();
        let mut short = 0;
        let mut sets = BTreeSet::new();
        for step in &all {
            let Action::Bring { marks, .. } = step.action else {
                continue;
            };
            sets.insert(marks);
            let next = all
                .iter()
                .find(|it| it.life == step.life && it.at_ms > step.at_ms);
            short +=
                usize::from(next.is_some_and(|it| {
                    it.action == Action::Remove && it.at_ms - step.at_ms <= 3_000
                }));
        }
        assert!(short > 30, "{short}");
        assert_eq!(sets.len(), usize::from(mark::SETS));
    }

    #[test]
    fn a_snapshot_is_of_a_claim_of_its_namespace_that_was_created_before() {
        let births: Vec<_> = { super::super::steps(1, 480, 1000).into_iter() }
            .filter(|it| matches!(it.act, super::super::Act::Create(_)))
            .map(|it| (it.claim, it.at_ms))
            .collect();
        let mut early = 0;
        for step in all() {
            if let Action::Take { claim, .. } = step.action {
                assert_eq!(claim % NAMESPACES, step.life % NAMESPACES);
                let born = births.iter().find(|(number, _)| *number == claim);
                early += usize::from(born.is_none_or(|(_, at)| *at > step.at_ms));
            }
        }
        assert!(early < 30, "{early} before their claims");
    }
}
