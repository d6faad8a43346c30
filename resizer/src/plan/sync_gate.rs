//! When the first task of each kind may begin: once the lists that it depends on are complete.
//!
//! Each kind has its own gate: modifications go on without the permission to list pods, and
//! expansions without the permission to list classes.

use std::collections::HashSet;

use super::driver::Abilities;
use super::{Kind, Settings, Task};

/// A gate for each kind of task.
#[derive(Clone, Debug)]
pub struct SyncGates {
    kinds: [(Kind, Gate); 2],
}

#[derive(Clone, Debug)]
enum Gate {
    Open,
    /// The tasks that have arrived early.
    Closed(HashSet<Task>),
    /// Tasks of this kind do not exist.
    Disabled,
}

impl SyncGates {
    /// Closed gates, and disabled ones for kinds without tasks.
    #[must_use]
    pub fn new(abilities: Abilities, settings: &Settings) -> Self {
        let has = |kind| {
            let gated = kind == Kind::Modify && !settings.gates.attributes_class;
            abilities.has(kind) && !gated
        };
        Self {
            kinds: Kind::ALL.map(|kind| {
                if has(kind) {
                    (kind, Gate::Closed(HashSet::new()))
                } else {
                    (kind, Gate::Disabled)
                }
            }),
        }
    }

    /// The tasks that may run; a closed gate keeps the others.
    pub fn pass(&mut self, tasks: impl IntoIterator<Item = Task>) -> Vec<Task> {
        let tasks = tasks.into_iter();
        tasks.filter(|task| self.passes(task)).collect()
    }

    fn passes(&mut self, task: &Task) -> bool {
        match self.kinds.iter_mut().find(|(kind, _)| *kind == task.kind) {
            Some((_, Gate::Open)) => true,
            Some((_, Gate::Closed(early))) => {
                early.insert(task.clone());
                false
            }
            Some((_, Gate::Disabled)) | None => false,
        }
    }

    /// Whether tasks of this kind wait for lists.
    #[must_use]
    pub fn is_closed(&self, kind: Kind) -> bool {
        let mut closed = self.kinds.iter();
        closed.any(|(of, gate)| *of == kind && matches!(gate, Gate::Closed(_)))
    }

    /// Opens the gate of this kind. Returns the tasks that have arrived early.
    pub fn open(&mut self, kind: Kind) -> HashSet<Task> {
        let gate = self.kinds.iter_mut().find(|(of, _)| *of == kind);
        match gate.map(|(_, gate)| gate) {
            Some(gate @ Gate::Closed(_)) => match std::mem::replace(gate, Gate::Open) {
                Gate::Closed(early) => early,
                Gate::Open | Gate::Disabled => HashSet::new(),
            },
            Some(Gate::Open | Gate::Disabled) | None => HashSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::driver::Expansion;

    fn task(kind: Kind) -> Task {
        Task::new(kind, &"ns/c1".into())
    }

    #[test]
    fn z_28_and_29_each_sort_waits_for_itself() {
        let mut gates = SyncGates::new(crate::testing::driver().abilities, &Settings::default());
        let (expand, modify) = (task(Kind::Expand), task(Kind::Modify));
        let both = [expand.clone(), expand.clone(), modify.clone()];
        assert!(gates.pass(both.clone()).is_empty());
        assert_eq!(gates.open(Kind::Modify), HashSet::from([modify.clone()]));
        assert_eq!(gates.pass(both.clone()), both[2..]);
        assert_eq!(gates.open(Kind::Expand), HashSet::from([expand.clone()]));
        assert_eq!(gates.pass(both.clone()), both);
        assert!(gates.open(Kind::Expand).is_empty());
    }

    #[test]
    fn z_24_and_121_what_there_is_no_work_of_is_not_even_kept() {
        let modifies = crate::testing::driver().abilities;
        let expands = Abilities {
            modify: false,
            ..modifies
        };
        let nothing = Abilities {
            expansion: Expansion::None,
            ..modifies
        };
        let mut gated = Settings::default();
        gated.gates.attributes_class = false;
        for (abilities, settings, kind) in [
            (expands, Settings::default(), Kind::Modify),
            (modifies, gated, Kind::Modify),
            (nothing, Settings::default(), Kind::Expand),
        ] {
            let mut gates = SyncGates::new(abilities, &settings);
            assert!(gates.pass([task(kind)]).is_empty());
            assert!(gates.open(kind).is_empty());
            assert!(gates.pass([task(kind)]).is_empty(), "still none");
        }
    }
}
