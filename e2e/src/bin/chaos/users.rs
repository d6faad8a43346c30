//! The users' acts, decided beforehand: when they create which claims, how those are used, and when
//! they delete them. Pure: the same for the same seed.

pub(crate) mod lifetimes;

use crate::dice::Dice;

/// Number of namespaces that claims are spread over.
pub(crate) const NAMESPACES: u64 = 10;

/// Number of nodes without kubelet that volumes are attached to.
pub(crate) const NODES: u64 = 6;

/// The data source of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// None.
    New,
    /// The claim with this number, in the same namespace.
    Clone(u64),
    /// The namespace's snapshot.
    Snapshot,
}

/// An act on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Create the claim.
    Create(Origin),
    /// The user requests this size in MiB.
    Grow(u64),
    /// Attach its volume to this node.
    Attach(u64),
    /// Detach its volume.
    Detach,
    /// The user deletes the claim.
    Delete,
}

/// An act with its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// Milliseconds since the start of the run.
    pub(crate) at_ms: u64,
    /// Number of the claim.
    pub(crate) claim: u64,
    /// The act.
    pub(crate) act: Act,
}

/// The namespace of a claim.
pub(crate) fn namespace_of(claim: u64) -> u64 {
    claim % NAMESPACES
}

/// The deletion of a namespace with everything in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leaving {
    /// Milliseconds since the start of the run.
    pub(crate) at_ms: u64,
    /// Number of the namespace.
    pub(crate) namespace: u64,
}

/// Deletes two namespaces in the middle of the run.
pub(crate) fn leaving(seconds: u64) -> [Leaving; 2] {
    [2, 3].map(|quarter| Leaving {
        at_ms: seconds * 1000 * quarter / 4,
        namespace: NAMESPACES - quarter + 1,
    })
}

/// All acts, by time; those on one claim keep their order.
pub(crate) fn steps(seed: u64, seconds: u64, claims: u64) -> Vec<Step> {
    let mut dice = Dice::new(seed, "users");
    let births = births(&mut dice, seconds, claims);
    let mut all = Vec::new();
    for (claim, born) in (0..claims).zip(births) {
        let mut life = Lifetime {
            dice: &mut dice,
            claim,
            born,
            end: seconds * 1000,
        };
        all.extend(life.steps());
    }
    all.sort_by_key(|step| step.at_ms);
    all
}

/// The creation times: most claims come one by one, every third in a crowd.
fn births(dice: &mut Dice, seconds: u64, claims: u64) -> Vec<u64> {
    let last = seconds * 900;
    let crowds: Vec<_> = (0..10).map(|_| dice.between(0, last)).collect();
    let birth = |_| {
        if dice.percent(33) {
            dice.pick(&crowds).unwrap_or(0) + dice.between(0, 300)
        } else {
            dice.between(0, last)
        }
    };
    let mut births: Vec<_> = (0..claims).map(birth).collect();
    births.sort_unstable();
    births
}

/// In every fourth row the claims are sources of clones; these do not grow.
const SOURCE_ROW: u64 = 4;

fn is_source(claim: u64) -> bool {
    (claim / NAMESPACES).is_multiple_of(SOURCE_ROW)
}

struct Lifetime<'d> {
    dice: &'d mut Dice,
    claim: u64,
    born: u64,
    end: u64,
}

impl Lifetime<'_> {
    fn steps(&mut self) -> Vec<Step> {
        let death = self.death();
        let mut acts = vec![(self.born, Act::Create(self.origin()))];
        let until = death.unwrap_or(self.end);
        if self.dice.percent(45) {
            acts.extend(self.attachment(until));
        }
        if self.dice.percent(30) && !is_source(self.claim) {
            let first = self.born + self.dice.between(500, 30_000);
            acts.push((first, Act::Grow(self.dice.between(2, 4))));
            if self.dice.percent(40) {
                let second = first + self.dice.between(50, 20_000);
                acts.push((second, Act::Grow(self.dice.between(5, 9))));
            }
        }
        // Acts after the end of the run are dropped, and those after the claim's deletion, except
        // detaches.
        acts.retain(|(at, act)| *at < self.end && (*at < until || *act == Act::Detach));
        if let Some(death) = death {
            acts.push((death, Act::Delete));
        }
        acts.sort_by_key(|(at, _)| *at);
        let claim = self.claim;
        { acts.into_iter() }
            .map(|(at_ms, act)| Step { at_ms, claim, act })
            .collect()
    }

    fn origin(&mut self) -> Origin {
        let sources: Vec<_> = (0..self.claim)
            .filter(|it| namespace_of(*it) == namespace_of(self.claim) && is_source(*it))
            .collect();
        let young = sources.len().saturating_sub(3);
        let young = sources.get(young..).unwrap_or_default();
        match self.dice.between(1, 100) {
            1..=15 if !is_source(self.claim) => {
                self.dice.pick(young).map_or(Origin::New, Origin::Clone)
            }
            16..=25 => Origin::Snapshot,
            _ => Origin::New,
        }
    }

    /// One claim in four is deleted before its volume can exist, half of them later.
    fn death(&mut self) -> Option<u64> {
        match self.dice.between(1, 100) {
            1..=25 => Some(self.born + self.dice.between(5, 1_500)),
            26..=75 => Some(self.born + self.dice.between(3_000, 90_000)),
            _ => None,
        }
        .filter(|death| *death < self.end)
    }

    /// One or two attachments; the detach may come before the attach has finished, and after the
    /// claim's deletion.
    fn attachment(&mut self, until: u64) -> Vec<(u64, Act)> {
        let mut acts = Vec::new();
        let mut at = self.born + self.dice.between(1_000, 10_000);
        for _ in 0..self.dice.between(1, 2) {
            acts.push((at, Act::Attach(self.dice.between(0, NODES - 1))));
            at += if self.dice.percent(25) {
                self.dice.between(20, 800)
            } else {
                self.dice.between(3_000, 40_000)
            };
            if at < until && self.dice.percent(30) {
                return acts;
            }
            acts.push((at, Act::Detach));
            at += self.dice.between(10, 5_000);
        }
        acts
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn of_each(steps: &[Step]) -> BTreeMap<u64, Vec<Step>> {
        let mut lifetimes: BTreeMap<u64, Vec<Step>> = BTreeMap::new();
        for step in steps {
            lifetimes.entry(step.claim).or_default().push(*step);
        }
        lifetimes
    }

    #[test]
    fn a_seed_gives_the_same_users() {
        assert_eq!(steps(5, 60, 100), steps(5, 60, 100));
        assert_ne!(steps(5, 60, 100), steps(6, 60, 100));
    }

    #[test]
    fn every_claim_is_created_first_and_once_and_deleted_at_most_once() {
        let steps = steps(1, 480, 1000);
        assert!(steps.is_sorted_by_key(|step| step.at_ms));
        let lifetimes = of_each(&steps);
        assert_eq!(lifetimes.len(), 1000);
        for life in lifetimes.values() {
            assert!(matches!(life[0].act, Act::Create(_)), "{life:?}");
            let created = life.iter().filter(|it| matches!(it.act, Act::Create(_)));
            assert_eq!(created.count(), 1);
            let deleted = life.iter().position(|it| it.act == Act::Delete);
            let after = life.iter().skip(deleted.map_or(usize::MAX, |at| at + 1));
            assert!(after.clone().all(|it| it.act == Act::Detach), "{life:?}");
        }
    }

    #[test]
    fn there_is_some_of_everything() {
        let steps = steps(1, 480, 1000);
        let count = |chosen: fn(&Step) -> bool| steps.iter().filter(|step| chosen(step)).count();
        assert!(count(|it| matches!(it.act, Act::Create(Origin::Clone(_)))) > 40);
        assert!(count(|it| it.act == Act::Create(Origin::Snapshot)) > 40);
        assert!(count(|it| matches!(it.act, Act::Attach(_))) > 150);
        assert!(count(|it| matches!(it.act, Act::Grow(_))) > 100);
        let deleted = count(|it| it.act == Act::Delete);
        assert!((500..900).contains(&deleted), "{deleted}");
        let early = of_each(&steps).into_values().filter(|life| {
            let end = life.iter().find(|it| it.act == Act::Delete);
            end.is_some_and(|end| end.at_ms - life[0].at_ms < 1_500)
        });
        assert!(early.count() > 150);
    }

    #[test]
    fn clones_are_of_earlier_claims_of_their_namespace_that_do_not_grow() {
        let steps = steps(2, 480, 1000);
        let grown: BTreeSet<_> = { steps.iter() }
            .filter(|it| matches!(it.act, Act::Grow(_)))
            .map(|it| it.claim)
            .collect();
        for step in &steps {
            if let Act::Create(Origin::Clone(source)) = step.act {
                assert!(source < step.claim);
                assert_eq!(namespace_of(source), namespace_of(step.claim));
                assert!(!grown.contains(&source));
            }
        }
    }

    #[test]
    fn two_namespaces_leave_while_claims_are_created() {
        let [first, second] = leaving(480);
        assert_ne!(first.namespace, second.namespace);
        assert!(first.namespace < NAMESPACES && second.namespace < NAMESPACES);
        assert!(first.at_ms < second.at_ms && second.at_ms < 480_000 * 9 / 10);
    }
}
