//! Tasks, and whose turn it is: a claim has two, and one of them at a time is worked on.
//!
//! The queue knows keys but not what they are for. Both tasks of a claim are keys of the one queue:
//! each has its own count of failures and its own back-off there.

use sidecar::queue::{Group, LaneConfig, Place};

use crate::model::Text;

/// What is to be done for a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The volume is to grow.
    Expand,
    /// The volume's attributes are to change.
    Modify,
}

impl Kind {
    /// Both.
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

/// A key of the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Task {
    /// What is to be done.
    pub kind: Kind,
    /// `namespace/name` of the claim.
    pub claim: Text,
}

impl Task {
    /// This kind of work for the claim.
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

    /// Where it waits: namespaces take turns, so that one which grows a thousand claims does not
    /// hold up another which grows one.
    #[must_use]
    pub fn place(&self) -> Place {
        Place::new(0, Group::of(self.namespace()))
    }
}

/// The one lane of a queue with `--workers` workers.
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
