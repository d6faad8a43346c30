//! Life cycle of a volume: attach, stage, publish, and the reverse.
//!
//! Tearing down has to consider everything that may have happened; going on requires a confirmed
//! step.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Event, Known, events, known};
use super::{Invariant, Options, Violation, violation};
use crate::instrument::record::Call;

/// A volume on one node.
#[derive(Default)]
struct OnNode<'a> {
    /// Confirmed staging paths.
    staged: BTreeSet<&'a str>,
    /// Staging paths that may be in use, with the call that used them.
    maybe_staged: BTreeMap<&'a str, &'a Call>,
    /// Target paths that may be in use, with the call that used them.
    maybe_published: BTreeMap<&'a str, &'a Call>,
}

/// A volume.
#[derive(Default)]
struct Life<'a> {
    nodes: BTreeMap<&'a str, OnNode<'a>>,
    /// Nodes that it may be attached to, with the call that attached it.
    maybe_attached: BTreeMap<&'a str, &'a Call>,
    /// It was attached at least once.
    attaches: bool,
}

pub(super) fn check(calls: &[Call], options: &Options) -> Vec<Violation> {
    let attaches = calls
        .iter()
        .any(|call| call.method == "ControllerPublishVolume");
    let mut checker = Checker {
        options,
        attaches,
        volumes: BTreeMap::new(),
        found: Vec::new(),
    };
    for event in events(calls) {
        match event {
            Event::Start(call) => checker.start(call),
            Event::End(call) => checker.end(call),
        }
    }
    checker.found
}

struct Checker<'a> {
    options: &'a Options,
    /// The driver's volumes are attached.
    attaches: bool,
    volumes: BTreeMap<&'a str, Life<'a>>,
    found: Vec<Violation>,
}

impl<'a> Checker<'a> {
    fn report(&mut self, invariant: Invariant, calls: &[&Call], message: String) {
        self.found.push(violation(invariant, calls, message));
    }

    fn start(&mut self, call: &'a Call) {
        let (volume, node) = (call.volume.as_str(), call.node.as_str());
        match call.method.as_str() {
            "ControllerPublishVolume" => {
                let life = self.volumes.entry(volume).or_default();
                life.attaches = true;
                life.maybe_attached.entry(node).or_insert(call);
            }
            "ControllerUnpublishVolume" => self.check_detach(call),
            "NodeStageVolume" => {
                self.check_attached(call);
                let life = self.volumes.entry(volume).or_default();
                let here = life.nodes.entry(node).or_default();
                here.maybe_staged.entry(&call.staging).or_insert(call);
            }
            "NodePublishVolume" => {
                self.check_staged(call);
                let life = self.volumes.entry(volume).or_default();
                let here = life.nodes.entry(node).or_default();
                here.maybe_published.entry(&call.target).or_insert(call);
            }
            "NodeUnstageVolume" => self.check_unstage(call),
            "DeleteVolume" => self.check_delete(call),
            _ => {}
        }
    }

    fn end(&mut self, call: &'a Call) {
        let Some(life) = self.volumes.get_mut(call.volume.as_str()) else {
            return;
        };
        let (node, outcome) = (call.node.as_str(), known(call));
        let done = outcome == Known::Done;
        let refused = outcome == Known::Failed;
        let here = life.nodes.entry(node).or_default();
        match call.method.as_str() {
            "ControllerPublishVolume" if refused => retract(&mut life.maybe_attached, node, call),
            "ControllerUnpublishVolume" if done && node.is_empty() => life.maybe_attached.clear(),
            "ControllerUnpublishVolume" if done => drop(life.maybe_attached.remove(node)),
            "NodeStageVolume" if refused => {
                retract(&mut here.maybe_staged, &call.staging, call);
            }
            "NodeStageVolume" if done => drop(here.staged.insert(&call.staging)),
            "NodeUnstageVolume" => {
                // Even without a response: from now on it is not certainly staged.
                here.staged.remove(call.staging.as_str());
                if done {
                    here.maybe_staged.remove(call.staging.as_str());
                }
            }
            "NodePublishVolume" if refused => {
                retract(&mut here.maybe_published, &call.target, call);
            }
            "NodeUnpublishVolume" if done => {
                here.maybe_published.remove(call.target.as_str());
            }
            "DeleteVolume" if done => drop(self.volumes.remove(call.volume.as_str())),
            _ => {}
        }
    }

    fn check_attached(&mut self, call: &Call) {
        let attached = self
            .volumes
            .get(call.volume.as_str())
            .is_some_and(|life| life.maybe_attached.contains_key(call.node.as_str()));
        if self.attaches && !attached {
            let message = format!("{} staged on {} without attachment", call.volume, call.node);
            self.report(Invariant::NodeOrder, &[call], message);
        }
    }

    fn check_staged(&mut self, call: &Call) {
        let life = self.volumes.get(call.volume.as_str());
        let here = life.and_then(|life| life.nodes.get(call.node.as_str()));
        let staged = here.is_some_and(|here| here.staged.contains(call.staging.as_str()));
        let any = here.is_some_and(|here| !here.staged.is_empty());
        let problem = match call.staging.as_str() {
            "" if any => "without the staging path it has",
            "" => return,
            _ if staged => return,
            _ => "before it was staged",
        };
        let message = format!("{} published on {} {problem}", call.volume, call.node);
        self.report(Invariant::NodeOrder, &[call], message);
    }

    fn check_unstage(&mut self, call: &Call) {
        let life = self.volumes.get(call.volume.as_str());
        let here = life.and_then(|life| life.nodes.get(call.node.as_str()));
        let mut published = here
            .into_iter()
            .flat_map(|here| here.maybe_published.values());
        if let Some(user) = published
            .find(|publish| publish.staging == call.staging)
            .copied()
        {
            let message = format!(
                "{} unstaged on {} while published at {}",
                call.volume, call.node, user.target
            );
            self.report(Invariant::NodeOrder, &[user, call], message);
        }
    }

    fn check_detach(&mut self, call: &Call) {
        if self.options.nodes_were_lost {
            return;
        }
        let life = self.volumes.get(call.volume.as_str());
        let nodes = life.into_iter().flat_map(|life| &life.nodes);
        let users: Vec<(&str, &Call)> = nodes
            .filter(|(node, _)| call.node.is_empty() || **node == call.node)
            .filter_map(|(node, here)| Some((*node, user(here)?)))
            .collect();
        for (node, user) in users {
            let message = format!("{} detached from {node} while in use there", call.volume);
            self.report(Invariant::DetachInUse, &[user, call], message);
        }
    }

    fn check_delete(&mut self, call: &Call) {
        let Some(life) = self.volumes.get(call.volume.as_str()) else {
            return;
        };
        let attached = life
            .maybe_attached
            .iter()
            .next()
            .map(|(node, call)| (*node, *call));
        // A detached volume may still be mounted on a lost node.
        let mounted = life
            .nodes
            .iter()
            .find_map(|(node, here)| Some((*node, user(here)?)));
        let user = if life.attaches { attached } else { mounted };
        if let Some((node, user)) = user {
            let message = format!("{} deleted while in use on {node}", call.volume);
            self.report(Invariant::DeleteInUse, &[user, call], message);
        }
    }
}

/// A refused call has changed nothing; an earlier one may still have had an effect.
fn retract<'a>(maybe: &mut BTreeMap<&'a str, &'a Call>, key: &str, call: &Call) {
    if maybe
        .get(key)
        .is_some_and(|first| std::ptr::eq(*first, call))
    {
        maybe.remove(key);
    }
}

/// A call after which the node may use the volume.
fn user<'a>(here: &OnNode<'a>) -> Option<&'a Call> {
    here.maybe_published
        .values()
        .chain(here.maybe_staged.values())
        .next()
        .copied()
}
