//! The Node's status on the API server and in the agent's cache, and the controller that attaches
//! and detaches by it.

use std::collections::BTreeSet;

use node_agent::plan::node::{NodeView, Report, Reports};
use serde_json::Value;

use super::Chance;

#[derive(Default)]
pub(super) struct Control {
    pub(super) node: NodeView,
    /// The state that the agent's watch has delivered.
    pub(super) seen: NodeView,
    pub(super) reports: Reports,
    /// The patch under way.
    sent: Option<Value>,
    /// Failed patches that the API server may still apply, until one succeeds.
    late: Vec<Value>,
}

fn take(node: &mut NodeView, patch: &Value) {
    if let Some(list) = patch["status"]["volumesInUse"].as_array() {
        let names = list.iter().map(|name| name.as_str().unwrap().to_owned());
        node.in_use = names.collect();
    }
    if patch.get("metadata").is_some() {
        node.controller_attaches = true;
    }
}

impl Control {
    /// Advances the agent's patches and its watch at random.
    pub(super) fn advance(&mut self, chance: &mut Chance, faults: bool) {
        if chance.one_in(3) {
            self.seen = self.node.clone();
        }
        if faults && !self.late.is_empty() && chance.one_in(8) {
            take(&mut self.node, &self.late.remove(0));
        }
        if self.sent.is_none() || !chance.one_in(3) {
            return;
        }
        let Some(patch) = self.sent.take() else {
            return;
        };
        match if faults { chance.below(6) } else { 5 } {
            0 => {
                self.reports.end(false);
                self.late.push(patch);
            }
            1 => {
                take(&mut self.node, &patch);
                self.reports.end(false);
            }
            _ => {
                self.late.clear();
                take(&mut self.node, &patch);
                self.seen = self.node.clone();
                self.reports.end(true);
            }
        }
    }

    /// The agent patches its volumes in use if they have changed. Returns whether they have.
    pub(super) fn report(&mut self, in_use: BTreeSet<String>) -> bool {
        let report = Report {
            in_use,
            attached: None,
        };
        let Some(patch) = self.reports.next(&self.seen, &report) else {
            return self.sent.is_some();
        };
        self.reports.begin(report);
        self.sent = Some(patch);
        true
    }

    /// The agent is killed and starts again; patches under way arrive before that or never.
    pub(super) fn crash(&mut self, chance: &mut Chance) {
        for patch in self.sent.take().into_iter().chain(self.late.drain(..)) {
            if chance.one_in(2) {
                take(&mut self.node, &patch);
            }
        }
        self.reports = Reports::default();
        self.seen = self.node.clone();
    }

    /// The controller looks at one volume. Returns true if it detaches it.
    pub(super) fn attach_or_detach(&mut self, volume: &str, wanted: bool) -> bool {
        if wanted {
            self.node.attached.insert(volume.to_owned());
            return false;
        }
        !self.node.in_use.contains(volume) && self.node.attached.remove(volume)
    }
}
