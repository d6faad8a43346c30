//! Scheduling: attach and detach have separate lanes, and nodes take turns within each.
//!
//! The queue knows lanes and groups but not their meaning. A burst of detaches, or a node whose
//! calls hang, must not delay everybody else.
//!
//! * At most `--worker-threads` attempts run at once, attaches and detaches together. The storage
//!   system never sees more concurrent calls.
//! * A free slot goes to the lane with fewer running attempts, and in it to the node with the
//!   fewest. With both lanes busy, each gets half of the slots.
//! * A fifth of the slots is closed to detaches, so that an attach need not wait for one of many
//!   slow detaches to end. Attaches may use all slots.
//! * Nodes with hanging attempts share half of the slots. Hanging shows only once the slots are
//!   taken, so other nodes may wait once, for the timeout of one call.

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

/// Lane and group of `attachment`.
#[must_use]
pub fn place(attachment: &Attachment) -> Place {
    let lane = index(Direction::of(attachment));
    Place::new(lane, Group::of(&attachment.node))
}

/// Lane and group of an orphan.
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

/// Mean duration of recent successful calls. An attempt counts as hanging after three times as
/// long, so that a driver that is always slow does not count as hanging.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    mean: Option<Duration>,
}

impl Pace {
    /// Lower bound of [`limit`](Self::limit).
    const SHORTEST: Duration = Duration::from_millis(1500);

    /// Records the duration of a successful call.
    pub fn observe(&mut self, took: Duration) {
        self.mean = Some(match self.mean {
            None => took,
            Some(mean) => mean.saturating_mul(7).saturating_add(took) / 8,
        });
    }

    /// How long an attempt may run before it counts as hanging; `None` before the first successful
    /// call.
    #[must_use]
    pub fn limit(self) -> Option<Duration> {
        let usual = self.mean?.saturating_mul(3);
        Some(usual.max(Self::SHORTEST))
    }
}

/// Whether an attempt with this failure counts as hanging, regardless of the pace: its call timed
/// out.
#[must_use]
pub fn hung(failure: &Failure) -> bool {
    matches!(failure, Failure::Call(error) if error.code == Code::DeadlineExceeded)
}

#[cfg(test)]
mod tests;
