//! Node deployment: which claims the provisioner of one node makes volumes for.
//!
//! Here processes compete: nobody selects a node for a claim that is bound immediately, so each
//! process waits a while, and the first that has room writes its node on the claim.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use csi_proto::csi::{CreateVolumeRequest, GetCapacityRequest, Topology};

use super::in_flight::ClaimKey;
use super::settings::{NodeDeployment, Settings};
use super::topology::{Input, TopologyIndex, requirement};
use crate::model::{Claim, Class};

/// Whether the class allows this node. Without `topology` every node is as good as any other.
#[must_use]
pub fn fits(
    claim: &Claim,
    class: &Class,
    own: &NodeDeployment,
    settings: &Settings,
    topology: Option<&TopologyIndex>,
) -> bool {
    let Some(places) = topology else {
        return true;
    };
    let input = Input {
        claim: &claim.name,
        node: Some(&own.name),
        allowed: &class.allowed_topologies,
        strict: settings.strict_topology,
        immediate: settings.immediate_topology,
        places,
    };
    class.allowed_topologies.is_empty() || requirement(&input).is_ok()
}

/// How long to wait before a node is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// `--node-deployment-base-delay`
    pub base: Duration,
    /// `--node-deployment-max-delay`
    pub max: Duration,
}

impl Pace {
    /// The delay after so many attempts for a claim. `unit_random` is uniform in [0, 1): it keeps
    /// the processes of all nodes from acting at once, so that the first delay is anything up to
    /// `base`.
    #[must_use]
    pub fn delay(self, attempts: u32, unit_random: f64) -> Duration {
        let factor = 1_u32.checked_shl(attempts).unwrap_or(u32::MAX);
        let longest = self.base.saturating_mul(factor).min(self.max);
        let spread = self.base.as_secs_f64() * unit_random.clamp(0.0, 1.0);
        let spread = Duration::try_from_secs_f64(spread).unwrap_or(self.base);
        longest.saturating_sub(spread)
    }
}

/// Claims that this process would take. A crash forgets them, and the waiting begins anew.
#[derive(Debug, Default)]
pub struct OwnershipRaces {
    claims: HashMap<ClaimKey, Contest>,
}

#[derive(Debug, Default)]
struct Contest {
    attempts: u32,
    /// When it is this process's turn.
    due: Option<Instant>,
}

/// Whether it is time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// To wait; the claim is looked at again after this time.
    Wait(Duration),
    /// To try.
    Now,
}

impl OwnershipRaces {
    /// An open claim was looked at. The first look begins the waiting; a look before its end changes
    /// nothing, and whoever tried in vain begins to wait again, longer.
    pub fn look(&mut self, key: &ClaimKey, pace: Pace, now: Instant, unit_random: f64) -> Turn {
        let contest = self.claims.entry(key.clone()).or_default();
        match contest.due {
            Some(due) if due <= now => {
                contest.due = None;
                Turn::Now
            }
            Some(due) => Turn::Wait(due - now),
            None => {
                let delay = pace.delay(contest.attempts, unit_random);
                contest.attempts = contest.attempts.saturating_add(1);
                contest.due = now.checked_add(delay);
                Turn::Wait(delay)
            }
        }
    }

    /// The claim has a node, or is gone.
    pub fn end(&mut self, key: &ClaimKey) {
        self.claims.remove(key);
    }

    /// How many claims are waited for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.claims.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

/// Whether there is room for a volume, before its claim is taken.
#[derive(Clone, Debug, PartialEq)]
pub struct CapacityCheck {
    needed: i64,
    /// What to ask the driver, until one answer is [`enough`](Self::enough): in each place where the
    /// volume may be, or, if that does not matter, once.
    pub questions: Vec<GetCapacityRequest>,
}

impl CapacityCheck {
    /// The check for a volume that would be made with this request; `None` for one without size,
    /// for which there is always room.
    #[must_use]
    pub fn new(request: &CreateVolumeRequest) -> Option<Self> {
        let needed = request.capacity_range.as_ref()?.required_bytes;
        if needed <= 0 {
            return None;
        }
        let question = |place: Option<&Topology>| GetCapacityRequest {
            volume_capabilities: request.volume_capabilities.clone(),
            parameters: request.parameters.clone(),
            accessible_topology: place.cloned(),
        };
        let places = match &request.accessibility_requirements {
            Some(requirement) if !requirement.requisite.is_empty() => {
                requirement.requisite.iter().map(Some).collect()
            }
            Some(_) | None => vec![None],
        };
        Some(Self {
            needed,
            questions: places.into_iter().map(question).collect(),
        })
    }

    /// Whether the volume fits into so many bytes.
    #[must_use]
    pub fn enough(&self, available: i64) -> bool {
        self.needed <= available
    }
}

#[cfg(test)]
mod tests;
