//! Journals of other nodes, in a node deployment: only the provisioner of a node can find out the outcome of the calls
//! in its journal, and when the node is gone nobody can.

use std::time::Duration;

use super::header::Headed;
use super::intent::Intent;
use super::object::{Found, INTENT, RESTORED, TERMS};
use crate::model::Text;

/// Shortest mean interval between two looks of all provisioners together, after their start.
const APART: Duration = Duration::from_secs(20);
/// The same at their start, maybe all at once.
const APART_AT_FIRST: Duration = Duration::from_secs(2);
/// Shortest mean interval between two looks of one provisioner.
const SELDOM: Duration = Duration::from_secs(10 * 60);

/// Mean number of empty journals whose nodes a look checks.
const EMPTY_AT_A_TIME: f64 = 20.0;

/// A journal of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Name of the node that the journal belongs to.
    pub node: String,
    /// Names of the volumes that may have been made; for an entry that cannot be read or came with a backup, its
    /// annotation. A journal without any is of no use once its node is gone.
    pub volumes: Vec<Text>,
}

impl Neighbour {
    /// Reads `found`, if it is the journal of another node's provisioner for `driver`.
    #[must_use]
    pub fn of(found: &Found, driver: &str, node: &str) -> Option<Self> {
        let Headed::By(header) = found.header() else {
            return None;
        };
        let other = header.driver == driver && !header.node.is_empty() && header.node != node;
        let terms = |name: &str| {
            let text = found.annotations.get(&format!("{TERMS}{name}"));
            text.map(String::as_str)
        };
        let entries = found
            .annotations
            .iter()
            .filter(|(name, _)| name.starts_with(INTENT));
        let restored = found.annotations.keys();
        let restored = restored.filter(|name| name.starts_with(RESTORED));
        let mut volumes: Vec<Text> = restored.map(|name| name.as_str().into()).collect();
        for (name, text) in entries {
            match Intent::decode(text, terms) {
                Ok((intent, _)) => {
                    let names = intent.requests().map(|asked| Text::from(&*asked.name));
                    volumes.extend(names);
                }
                Err(_) => volumes.push(name.as_str().into()),
            }
        }
        volumes.sort_unstable();
        volumes.dedup();
        other.then_some(Self {
            node: header.node,
            volumes,
        })
    }
}

/// Whether this look checks that the node of an empty journal exists, with this number of Leases: over time every
/// journal is checked. `random` is in 0 to 1.
#[must_use]
pub fn looks_at_empty(leases: usize, random: f64) -> bool {
    let leases = u32::try_from(leases).unwrap_or(u32::MAX);
    random * f64::from(leases) < EMPTY_AT_A_TIME
}

/// The pause before a look, with this number of Leases; `random` is in 0 to 1.
#[must_use]
pub fn pause(leases: usize, first: bool, random: f64) -> Duration {
    let leases = u32::try_from(leases).unwrap_or(u32::MAX);
    if first {
        APART_AT_FIRST.saturating_mul(leases).mul_f64(random)
    } else {
        SELDOM
            .max(APART.saturating_mul(leases))
            .mul_f64(0.75 + random / 2.0)
    }
}
