//! Node deployment: which claims the provisioner of one node takes.
//!
//! Here processes compete: the scheduler selects no node for a claim with `Immediate` binding, so each process waits a
//! while, and the first that has enough capacity annotates the claim with its node.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use csi_proto::csi::{CreateVolumeRequest, GetCapacityRequest, Topology};
use sidecar::part::only;

use super::in_flight::ClaimKey;
use super::settings::{NodeDeployment, Settings};
use super::topology::{Input, TopologyIndex, requirement};
use crate::model::{Claim, Class};

/// Whether the class allows this node. Without `topology` it allows every node.
#[must_use]
pub fn fits(
    claim: &Claim,
    class: &Class,
    own: &NodeDeployment,
    settings: &Settings,
    topology: Option<&TopologyIndex>,
) -> bool {
    let Some(topology) = topology else {
        return true;
    };
    let input = Input {
        claim: &claim.name,
        node: Some(&own.name),
        allowed: &class.allowed_topologies,
        strict: settings.strict_topology,
        immediate: settings.immediate_topology,
        topology,
    };
    class.allowed_topologies.is_empty() || requirement(&input).is_ok()
}

/// Delays before a process takes a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// `--node-deployment-base-delay`
    pub base: Duration,
    /// `--node-deployment-max-delay`
    pub max: Duration,
}

impl Pace {
    /// The delay before the next attempt, after this many attempts for a claim. `unit_random` is uniform in [0, 1): it
    /// keeps the processes of all nodes from acting at once, so that the first delay is anything up to `base`.
    #[must_use]
    pub fn delay(self, attempts: u32, unit_random: f64) -> Duration {
        let factor = 1_u32.checked_shl(attempts).unwrap_or(u32::MAX);
        let longest = self.base.saturating_mul(factor).min(self.max);
        let spread = self.base.as_secs_f64() * unit_random.clamp(0.0, 1.0);
        let spread = Duration::try_from_secs_f64(spread).unwrap_or(self.base);
        longest.saturating_sub(spread)
    }
}

/// Claims that this process competes for. A crash forgets them, and the delays start again.
#[derive(Clone, Debug, Default)]
pub struct OwnershipRaces {
    claims: HashMap<ClaimKey, Race>,
}

#[derive(Clone, Debug, Default)]
struct Race {
    attempts: u32,
    /// End of the current delay.
    due: Option<Instant>,
}

/// Whether the delay of a claim is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The delay is not over: look at the claim again after this time.
    Wait(Duration),
    /// The delay is over: try to take the claim.
    Now,
}

impl OwnershipRaces {
    /// Called for each look at an open claim. The first look starts the delay, and a look before its end changes
    /// nothing. After an attempt that failed, the next look starts a longer one.
    pub fn look(&mut self, key: &ClaimKey, pace: Pace, now: Instant, unit_random: f64) -> Turn {
        let race = self.claims.entry(key.clone()).or_default();
        match race.due {
            Some(due) if due <= now => {
                race.due = None;
                Turn::Now
            }
            Some(due) => Turn::Wait(due - now),
            None => {
                let delay = pace.delay(race.attempts, unit_random);
                race.attempts = race.attempts.saturating_add(1);
                race.due = now.checked_add(delay);
                Turn::Wait(delay)
            }
        }
    }

    /// The part about one claim.
    #[must_use]
    pub fn of(&self, key: &ClaimKey) -> Self {
        Self {
            claims: only(self.claims.get_key_value(key)),
        }
    }

    /// Ends the race for a claim that has a node or is gone.
    pub fn end(&mut self, key: &ClaimKey) {
        self.claims.remove(key);
    }

    /// Number of claims that this process competes for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.claims.len()
    }

    /// Whether it competes for none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

/// Checks that the driver has enough capacity for a volume before the process takes its claim.
#[derive(Clone, Debug, PartialEq)]
pub struct CapacityCheck {
    needed: i64,
    /// GetCapacity requests to send until one answer is [`enough`](Self::enough): one for each requisite topology, or a
    /// single one where topology does not matter.
    pub questions: Vec<GetCapacityRequest>,
}

impl CapacityCheck {
    /// The check for the volume of this request; `None` for a request without size, which any capacity satisfies.
    #[must_use]
    pub fn new(request: &CreateVolumeRequest) -> Option<Self> {
        let needed = request.capacity_range.as_ref()?.required_bytes;
        if needed <= 0 {
            return None;
        }
        let question = |topology: Option<&Topology>| GetCapacityRequest {
            volume_capabilities: request.volume_capabilities.clone(),
            parameters: request.parameters.clone(),
            accessible_topology: topology.cloned(),
        };
        let topologies = match &request.accessibility_requirements {
            Some(requirement) if !requirement.requisite.is_empty() => {
                requirement.requisite.iter().map(Some).collect()
            }
            Some(_) | None => vec![None],
        };
        Some(Self {
            needed,
            questions: topologies.into_iter().map(question).collect(),
        })
    }

    /// Whether the volume fits into `available` bytes.
    #[must_use]
    pub fn enough(&self, available: i64) -> bool {
        self.needed <= available
    }
}

#[cfg(test)]
mod tests;
