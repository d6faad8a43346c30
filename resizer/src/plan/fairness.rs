//! Tasks and their order: a claim has two, of which only one runs at a time.
//!
//! The queue knows keys but not their purpose. Both tasks of a claim are keys of the same queue:
//! each has its own failure count and back-off.

use sidecar::queue::{Group, LaneConfig, Place};

use crate::model::Text;

/// The kind of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Expand the volume.
    Expand,
    /// Modify the volume's attributes.
    Modify,
}

impl Kind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Expand, Self::Modify];

    /// Lower-case name, for logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Expand => "expand",
            Self::Modify => "modify",
        }
    }

    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Expand => Self::Modify,
            Self::Modify => Self::Expand,
        }
    }
}

/// A task: the key of the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Task {
    /// Its kind.
    pub kind: Kind,
    /// `namespace/name` of the claim.
    pub claim: Text,
}

impl Task {
    /// The task of this kind for a claim.
    #[must_use]
    pub fn new(kind: Kind, claim: &Text) -> Self {
        Self {
            kind,
            claim: claim.clone(),
        }
    }

    /// The claim's namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.claim.split('/').next().unwrap_or_default()
    }

    /// The claim's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.claim.split('/').next_back().unwrap_or_default()
    }

    /// Its place in the queue: namespaces take turns, so that one which expands a thousand claims
    /// does not delay another which expands one.
    #[must_use]
    pub fn place(&self) -> Place {
        Place::new(0, Group::of(self.namespace()))
    }
}

/// The only lane of the queue, with `--workers` workers.
#[must_use]
pub fn lanes(workers: usize) -> Vec<LaneConfig> {
    let reserved = workers.max(1);
    vec![LaneConfig {
        name: "claims",
        reserved,
        group_limit: Some(reserved),
    }]
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use sidecar::queue::State;

    use super::*;

    #[test]
    fn namespaces_take_turns() {
        let now = Instant::now();
        let mut queue = State::new(lanes(2), 0);
        let task = |name: &str| Task::new(Kind::Expand, &name.into());
        for number in 0..10 {
            let task = task(&format!("busy/c{number}"));
            queue.add(&task, task.place(), now);
        }
        let small = task("small/c0");
        queue.add(&small, small.place(), now);
        let turns: Vec<Task> =
            std::iter::from_fn(|| queue.pop(now).map(|popped| popped.key)).collect();
        assert_eq!(turns, [task("busy/c0"), small]);
    }

    #[test]
    fn a_task_knows_its_claim() {
        let task = Task::new(Kind::Modify, &"ns/c1".into());
        assert_eq!(
            (task.namespace(), task.name(), task.kind.other()),
            ("ns", "c1", Kind::Expand)
        );
    }
}
