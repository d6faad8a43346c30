//! Whose turn it is: attach and detach have lanes of their own, and nodes take turns in each.
//!
//! The queue knows lanes and groups but not what they are for. A burst of detaches, or a node whose
//! calls hang, must not hold up everybody else.
//!
//! * No more than `--worker-threads` attempts run at once, both directions together: that is what
//!   the storage sees at most.
//! * A free slot goes to the lane that runs less, and in it to the node that runs least. With both
//!   lanes busy each comes to half of the slots.
//! * A fifth of the slots is never used by detaches, so that an attach need not wait until one of
//!   many slow detaches ends. Attaches may use all of them.
//! * Nodes with attempts that hang get half of the slots, all of them together. That they hang shows
//!   only when the slots are taken, so that the others may wait once, as long as a call may take.

use std::time::Duration;

use sidecar::queue::{Group, LaneConfig, Place};
use tonic::Code;

use super::orphan::Orphan;
use super::outcome::{Direction, Failure};
use crate::model::Attachment;

/// The queue's lanes, in the order of [`index`], and the slots they share.
#[must_use]
pub fn lanes(threads: usize) -> (Vec<LaneConfig>, usize) {
    let for_attaches = match threads {
        0 | 1 => 0,
        more => more.div_ceil(5),
    };
    let lane = |direction: Direction, reserved| LaneConfig {
        name: direction.name(),
        reserved,
        group_limit: None,
    };
    let lanes = vec![
        lane(Direction::Attach, for_attaches),
        lane(Direction::Detach, 0),
    ];
    (lanes, threads.max(1) - for_attaches)
}

/// Where `attachment` waits.
#[must_use]
pub fn place(attachment: &Attachment) -> Place {
    let lane = index(Direction::of(attachment));
    Place::new(lane, Group::of(&attachment.node))
}

/// Where what an attachment left waits.
#[must_use]
pub fn place_of_orphan(orphan: &Orphan) -> Place {
    Place::new(index(Direction::Detach), Group::of(&orphan.node))
}

/// The lane of a direction.
#[must_use]
pub fn index(direction: Direction) -> usize {
    match direction {
        Direction::Attach => 0,
        Direction::Detach => 1,
    }
}

/// How long an attempt may run before it counts as hanging: three times what successful calls took
/// lately. A driver that is always slow is not taken for one that hangs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    mean: Option<Duration>,
}

impl Pace {
    /// Less than this is a delay as any other.
    const SHORTEST: Duration = Duration::from_millis(1500);

    /// A successful call took this long.
    pub fn observe(&mut self, took: Duration) {
        self.mean = Some(match self.mean {
            None => took,
            Some(mean) => mean.saturating_mul(7).saturating_add(took) / 8,
        });
    }

    /// From when on an attempt counts as hanging; `None` while nobody knows how long calls take.
    #[must_use]
    pub fn limit(self) -> Option<Duration> {
        let usual = self.mean?.saturating_mul(3);
        Some(usual.max(Self::SHORTEST))
    }
}

/// Whether an attempt that failed like this hung, whatever others take.
#[must_use]
pub fn hung(failure: &Failure) -> bool {
    matches!(failure, Failure::Call(error) if error.code == Code::DeadlineExceeded)
}

#[cfg(test)]
mod tests;
