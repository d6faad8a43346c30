//! Whose turn it is: attach and detach have lanes of their own, and nodes take turns in each.
//!
//! Separate, because the queue knows lanes and groups but not what they are for. A burst of
//! detaches, or a node whose calls hang, must not hold up everybody else.
//!
//! * Each lane runs up to `--worker-threads` attempts. With a single worker thread the two lanes
//!   share it and alternate: who asks for one thread wants one call at a time.
//! * In a lane the nodes with waiting work take turns, first come first served within a node.
//! * An attempt that runs unusually long lends its slot to work of *other* nodes; for its own node
//!   it still counts. A lane never runs more than twice its number.

use std::time::Duration;

use sidecar::queue::{Group, LaneConfig, Place};

use super::outcome::Direction;
use crate::model::Attachment;

/// The queue's lanes, in the order of [`index`], and the slots they share.
#[must_use]
pub fn lanes(threads: usize) -> (Vec<LaneConfig>, usize) {
    let reserved = if threads <= 1 { 0 } else { threads };
    let lane = |direction: Direction| LaneConfig {
        name: direction.name(),
        reserved,
        group_limit: Some(threads.max(1)),
    };
    let lanes = vec![lane(Direction::Attach), lane(Direction::Detach)];
    (lanes, usize::from(reserved == 0))
}

/// Where `attachment` waits.
#[must_use]
pub fn place(attachment: &Attachment) -> Place {
    let lane = index(Direction::of(attachment));
    Place::new(lane, Group::of(&attachment.node))
}

/// The lane of a direction.
#[must_use]
pub fn index(direction: Direction) -> usize {
    match direction {
        Direction::Attach => 0,
        Direction::Detach => 1,
    }
}

/// How long an attempt may run before it counts as hanging: three times what successful ones took
/// lately. A driver that is always slow is not taken for one that hangs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    mean: Option<Duration>,
}

impl Pace {
    const SHORTEST: Duration = Duration::from_millis(1500);
    const LONGEST: Duration = Duration::from_secs(5);

    /// A successful attempt took this long.
    pub fn observe(&mut self, took: Duration) {
        self.mean = Some(match self.mean {
            None => took,
            Some(mean) => mean.saturating_mul(7).saturating_add(took) / 8,
        });
    }

    /// From when on an attempt counts as hanging.
    #[must_use]
    pub fn limit(self) -> Duration {
        let usual = self.mean.unwrap_or_default().saturating_mul(3);
        usual.clamp(Self::SHORTEST, Self::LONGEST)
    }
}

#[cfg(test)]
mod tests;
