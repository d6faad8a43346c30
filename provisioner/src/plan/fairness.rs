//! The order of claims and volumes when workers are scarce: namespaces take turns.
//!
//! The queue knows lanes and groups, but not their meaning. A namespace with a thousand claims must not delay another
//! one with a single claim.

use sidecar::queue::{Group, LaneConfig, Place};

use super::in_flight::ClaimKey;
use crate::model::Volume;

/// The only lane of the queue, with `--worker-threads` workers.
#[must_use]
pub fn lanes(name: &'static str, threads: usize) -> Vec<LaneConfig> {
    let reserved = threads.max(1);
    vec![LaneConfig {
        name,
        reserved,
        group_limit: Some(reserved),
    }]
}

/// Place of a claim in the queue.
#[must_use]
pub fn of_claim(key: &ClaimKey) -> Place {
    Place::new(0, Group::of(key.namespace()))
}

/// Place of a volume in the queue: with the claims of the namespace that claimed it.
#[must_use]
pub fn of_volume(volume: &Volume) -> Place {
    let namespace = match volume {
        Volume::NameOnly | Volume::Finalizer(..) => "",
        Volume::Deletable(detail) => detail.claim.as_ref().map_or("", |claim| &claim.namespace),
    };
    Place::new(0, Group::of(namespace))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use sidecar::queue::State;

    use super::*;

    #[test]
    fn namespaces_take_turns() {
        let now = Instant::now();
        let mut queue = State::new(lanes("provision", 2), 0);
        let key = |namespace: &str, number: usize| ClaimKey {
            name: format!("{namespace}/c{number}").into(),
            uid: format!("{namespace}-{number}").into(),
        };
        for number in 0..10 {
            let key = key("busy", number);
            queue.add(&key, of_claim(&key), now);
        }
        let small = key("small", 0);
        queue.add(&small, of_claim(&small), now);
        let turns: Vec<ClaimKey> =
            std::iter::from_fn(|| queue.pop(now).map(|popped| popped.key)).collect();
        assert_eq!(
            turns,
            [key("busy", 0), small],
            "row 3: fair among namespaces"
        );
    }
}
