//! The start-up taint of a Node: which taints to remove, under which conditions, and when to check.
//!
//! Whoever creates nodes adds this taint to keep pods away until the driver is ready. It can be removed
//! once kubelet has confirmed the registration and the CSINode, which the scheduler and
//! kube-controller-manager read, lists the driver.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use sidecar::in_cluster::Failure;
use sidecar::names::{is_label_key, is_label_value};
use sidecar::retry::RetryPolicy;

/// The possible effects of a taint.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// A pattern for taints to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    key: String,
    /// `None` matches any value.
    value: Option<String>,
    /// `None` matches all effects.
    effect: Option<String>,
}

impl Wanted {
    /// Reads `KEY[=VALUE][:EFFECT]`.
    ///
    /// # Errors
    /// Says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (rest, effect) = match text.rsplit_once(':') {
            Some((rest, effect)) => (rest, Some(effect)),
            None => (text, None),
        };
        let (key, value) = match rest.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (rest, None),
        };
        if let Some(effect) = effect.filter(|effect| !EFFECTS.contains(effect)) {
            let effects = EFFECTS.join(", ");
            return Err(format!(
                "{effect:?} is no effect of a taint, which are {effects}"
            ));
        }
        if !is_label_key(key) {
            return Err(format!(
                "{key:?} is no key of a taint; KEY[=VALUE][:EFFECT] is expected, as in \
                 d.example.com/agent-not-ready:NoSchedule"
            ));
        }
        if let Some(value) = value.filter(|value| !is_label_value(value)) {
            return Err(format!("{value:?} is no value of a taint"));
        }
        Ok(Self {
            key: key.to_owned(),
            value: value.map(str::to_owned),
            effect: effect.map(str::to_owned),
        })
    }

    fn is(&self, taint: &Taint) -> bool {
        self.key == taint.key
            && self
                .value
                .as_ref()
                .is_none_or(|value| *value == taint.value)
            && self
                .effect
                .as_ref()
                .is_none_or(|effect| *effect == taint.effect)
    }
}

/// A taint of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Taint {
    key: String,
    value: String,
    effect: String,
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, effect } = self;
        match value.is_empty() {
            true => write!(f, "{key}:{effect}"),
            false => write!(f, "{key}={value}:{effect}"),
        }
    }
}

/// A Node, as far as this program reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Node {
    metadata: NodeMetadata,
    spec: NodeSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct NodeMetadata {
    uid: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct NodeSpec {
    taints: Option<Vec<Taint>>,
}

/// A CSINode, as far as this program reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CsiNode {
    metadata: CsiNodeMetadata,
    spec: CsiNodeSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CsiNodeMetadata {
    owner_references: Option<Vec<Owner>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Owner {
    kind: String,
    uid: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct CsiNodeSpec {
    drivers: Option<Vec<Driver>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Driver {
    name: String,
}

/// The next step of a check.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// GET of the CSINode; one that does not exist is empty.
    ReadCsiNode,
    /// GET of the Node.
    ReadNode,
    /// PATCH of the Node.
    Remove(Removal),
    /// The Node has no such taint.
    Nothing,
    /// The taint must stay for now.
    Keep(Hindrance),
}

/// Why a taint must stay although kubelet has confirmed the registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Hindrance {
    /// Somebody removed the driver from the CSINode, or another driver's registration did.
    #[error("the CSINode does not list the driver")]
    NotListed,
    /// The CSINode still belongs to an earlier Node of that name; kubelet has not replaced it yet.
    #[error("the CSINode belongs to another Node of the same name")]
    OtherNode,
}

/// Taints to remove from one Node, as read.
#[derive(Clone, Debug, PartialEq)]
pub struct Removal {
    /// A JSON patch that changes nothing unless each taint is still at its position.
    pub operations: Value,
    /// The removed taints.
    pub taints: Vec<Taint>,
    /// Position of the first of them in the list.
    pub place: usize,
}

/// The next step, after the objects read so far.
#[must_use]
pub fn next(
    driver: &str,
    wanted: &[Wanted],
    csi_node: Option<&CsiNode>,
    node: Option<&Node>,
) -> Step {
    let Some(csi_node) = csi_node else {
        return Step::ReadCsiNode;
    };
    let mut drivers = csi_node.spec.drivers.iter().flatten();
    if !drivers.any(|it| it.name == driver) {
        return Step::Keep(Hindrance::NotListed);
    }
    let Some(node) = node else {
        return Step::ReadNode;
    };
    let mut owners = csi_node.metadata.owner_references.iter().flatten();
    let uid = &node.metadata.uid;
    if !owners.any(|owner| owner.kind == "Node" && owner.uid == *uid) {
        return Step::Keep(Hindrance::OtherNode);
    }
    removal(wanted, node).map_or(Step::Nothing, Step::Remove)
}

fn removal(wanted: &[Wanted], node: &Node) -> Option<Removal> {
    let taints = node.spec.taints.iter().flatten().enumerate();
    let found: Vec<_> = taints
        .filter(|(_, taint)| wanted.iter().any(|wanted| wanted.is(taint)))
        .collect();
    let place = found.first()?.0;
    let mut operations =
        vec![json!({"op": "test", "path": "/metadata/uid", "value": node.metadata.uid})];
    // From the end, so that no removal shifts the remaining ones.
    for (index, taint) in found.iter().rev() {
        let path = format!("/spec/taints/{index}");
        let field = |name: &str, value: &str| json!({"op": "test", "path": format!("{path}/{name}"), "value": value});
        operations.push(field("key", &taint.key));
        operations.push(field("effect", &taint.effect));
        let has_value = |wanted: &Wanted| wanted.is(taint) && wanted.value.is_some();
        if wanted.iter().any(has_value) {
            // The API server omits an empty value, and its JSON patch reads a missing value as null.
            let value = Some(&taint.value).filter(|value| !value.is_empty());
            operations.push(json!({"op": "test", "path": format!("{path}/value"), "value": value}));
        }
        operations.push(json!({"op": "remove", "path": path}));
    }
    Some(Removal {
        operations: operations.into(),
        taints: found.into_iter().map(|(_, taint)| taint.clone()).collect(),
        place,
    })
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The state is known, and all removable taints are gone.
    Settled,
    /// The list of taints changed meanwhile; our first taint was at this position.
    Conflict(usize),
    /// The API server did not answer, or answered that it cannot serve the request now.
    Away {
        /// How long the check waited for it.
        took: Duration,
        /// How long it asked the client to wait.
        asked: Duration,
        /// Whether it answered at all; then it may be overloaded.
        answered: bool,
    },
    /// The API server refused the request.
    Failed,
}

impl Look {
    /// The result of a check that failed after `took`.
    #[must_use]
    pub fn failed(failure: &Failure, took: Duration) -> Self {
        let away = |asked, answered| Self::Away {
            took,
            asked,
            answered,
        };
        match failure {
            Failure::Away(_) | Failure::Unusable(_) => away(Duration::ZERO, false),
            Failure::Refused {
                status: 429 | 500..,
                retry_after,
                ..
            } => away(retry_after.unwrap_or_default(), true),
            Failure::Refused { .. } => Self::Failed,
        }
    }
}

/// Times of the first checks after the confirmation: kubelet and cloud providers may add the taint late,
/// or restore an old list.
const LOOKS: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(15),
];
/// Longest interval between later checks.
const INTERVAL: Duration = Duration::from_secs(30);
/// How long checks continue after the confirmation.
const WATCHED: Duration = Duration::from_secs(600);

/// Pause per list position after a conflict. A removal ahead of our taint shifts it, so drivers further
/// back wait longer, and drivers that read the same list take turns.
const TURN: Duration = Duration::from_millis(200);
/// After this many conflicts in a row, something else must be wrong.
const MOST_CONFLICTS: u32 = 5;

const RETRY: RetryPolicy = RetryPolicy::new(Duration::from_secs(1), INTERVAL);
/// Back-off while the API server is unreachable. A check is cheap, a handshake or one object, so it can
/// notice the recovery early.
const RETRY_AWAY: RetryPolicy = RetryPolicy::new(Duration::from_secs(1), Duration::from_secs(4));
/// Interval between attempts after a long time without success.
const RETRY_LATE: Duration = Duration::from_secs(300);

/// Schedules the checks after one confirmation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// Number of such results in a row; see [`Look`].
    conflicts: u32,
    aways: u32,
    failures: u32,
    /// The last removal that the API server did not apply.
    unapplied: Option<Removal>,
}

impl Course {
    /// The result of a check whose removal the API server did not apply, with this status.
    ///
    /// The API server answers 409 if the Node was written meanwhile, and 422 both if a test of the patch
    /// fails and if a policy rejects the change. After a failed test the Node needs a different patch,
    /// so a repeated 422 for the same patch means a policy.
    #[must_use]
    pub fn unapplied(&mut self, removal: Removal, status: u16) -> Look {
        let place = removal.place;
        let tested = Some(removal).filter(|_| status == 422);
        let is_refused = tested.is_some() && tested == self.unapplied;
        self.unapplied = tested;
        match is_refused || self.conflicts >= MOST_CONFLICTS {
            true => Look::Failed,
            false => Look::Conflict(place),
        }
    }

    /// The pause before the next check, at `since` after the confirmation; `None` if that was the last
    /// one. `unit_random` is in `[0, 1)`.
    #[must_use]
    pub fn pause(&mut self, since: Duration, look: Look, unit_random: f64) -> Option<Duration> {
        let jittered = |delay: Duration| delay.mul_f64(1.0 - 0.2 * unit_random);
        let Self {
            conflicts,
            aways,
            failures,
            ..
        } = *self;
        (self.conflicts, self.aways, self.failures) = (0, 0, 0);
        match look {
            Look::Settled => {
                self.unapplied = None;
                let early = LOOKS.into_iter().find(|look| *look > since);
                let later = || (since < WATCHED).then(|| jittered(INTERVAL));
                early.map(|look| look.saturating_sub(since)).or_else(later)
            }
            Look::Conflict(place) => {
                (self.conflicts, self.failures) = (conflicts + 1, failures);
                // Limited: beyond 20 taints, drivers may share a turn.
                let turns = u32::try_from(place.clamp(1, 20)).unwrap_or(1);
                Some(TURN * turns + TURN.mul_f64(0.2 * unit_random))
            }
            Look::Away {
                took,
                asked,
                answered,
            } => {
                self.aways = aways.saturating_add(1);
                // Requests of all nodes every few seconds must not keep it overloaded.
                let policy = match answered && since >= WATCHED {
                    true => RETRY,
                    false => RETRY_AWAY,
                };
                let delay = |aways| jittered(policy.delay(aways, 0.0));
                // The time spent waiting for an answer counts as part of the pause.
                let pause = delay(self.aways).saturating_sub(took).max(delay(1));
                Some(pause.max(asked.min(INTERVAL)))
            }
            Look::Failed => {
                self.failures = failures.saturating_add(1);
                let delay = match since < WATCHED {
                    true => RETRY.delay(self.failures, 0.0),
                    false => RETRY_LATE,
                };
                Some(jittered(delay))
            }
        }
    }
}

#[cfg(test)]
mod tests;
