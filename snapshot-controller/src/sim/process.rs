//! One process: the controller that ships, caches fed by late events, queues that are sets, and
//! attempts that advance step by step.

use std::collections::BTreeSet;

use sidecar::controller::reactor::{Due, Reactor, Verdict};
use sidecar::kube::cache::{Source, store};

use super::known::Known;
use super::mutant::Mutant;
use super::watch::Watch;
use crate::model::{Claim, Content, Group, GroupContent, Snapshot, Text, Volume};
use crate::plan::in_flight::Key;
use crate::plan::reactor::{Attempt, Change, Controller, Notice};
use crate::plan::step::{Answer, Object, Step};
use crate::testing::request::{kind_and_key, now};
use crate::testing::server::{Kind, Server};

/// Kinds that are watched.
pub(super) const WATCHED: [Kind; 8] = [
    Kind::Snapshot,
    Kind::Content,
    Kind::Class,
    Kind::Claim,
    Kind::Volume,
    Kind::Group,
    Kind::GroupContent,
    Kind::GroupClass,
];

/// An attempt under way.
pub(super) struct Running {
    pub(super) key: Key,
    attempt: Attempt,
    pub(super) state: State,
}

pub(super) enum State {
    Deciding,
    /// Sent to the API server, not yet applied.
    Sent(Step),
    /// The answer is on its way, with the object if there is one in it.
    Answered(Step, Answer, Option<Text>),
}

pub(super) struct Process {
    pub(super) controller: Controller,
    pub(super) known: Known,
    pub(super) ready: BTreeSet<Key>,
    pub(super) later: BTreeSet<Key>,
    pub(super) running: Vec<Running>,
    /// Warnings told since the last look: reason, key of the object, text.
    pub(super) warnings: Vec<(&'static str, Text, String)>,
}

impl Process {
    pub(super) fn start(mutant: Mutant) -> Self {
        Self {
            controller: Controller::default(),
            known: Known::new(mutant),
            ready: BTreeSet::new(),
            later: BTreeSet::new(),
            running: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Whether everything was listed once: nothing is worked on before.
    pub(super) fn is_synced(&self) -> bool {
        self.known.is_listed()
    }

    pub(super) fn is_current(&self, server: &Server) -> bool {
        self.known.is_current(server)
    }

    /// The objects of this kind are listed, or the next event of theirs arrives.
    pub(super) fn watch(&mut self, kind: Kind, server: &Server, list: bool) {
        fn changes<R: sidecar::kube::cache::Record>(
            watch: &mut Watch<R>,
            server: &Server,
            list: bool,
        ) -> Vec<store::Change<R>> {
            if list || !watch.is_listed() {
                watch.list(server)
            } else {
                watch.hear(server).into_iter().collect()
            }
        }
        let known = &mut self.known;
        match kind {
            Kind::Snapshot => {
                let changes = changes(&mut known.snapshots, server, list);
                changes
                    .into_iter()
                    .for_each(|change| self.snapshot_changed(&change));
            }
            Kind::Content => {
                let changes = changes(&mut known.contents, server, list);
                changes
                    .into_iter()
                    .for_each(|change| self.content_changed(&change));
            }
            Kind::Claim => {
                let changes = changes(&mut known.claims, server, list);
                changes
                    .into_iter()
                    .for_each(|change| self.claim_changed(&change));
            }
            Kind::Class => {
                for change in changes(&mut known.classes, server, list) {
                    if let store::Change::Upserted { key, .. } = change {
                        self.observe(Change::Class(key.as_str().into()));
                    }
                }
            }
            Kind::Volume => {
                for change in changes(&mut known.volumes, server, list) {
                    self.volume_changed(&change);
                }
            }
            Kind::Group => {
                let changes = changes(&mut known.groups, server, list);
                changes
                    .into_iter()
                    .for_each(|change| self.group_changed(&change));
            }
            Kind::GroupContent => {
                let changes = changes(&mut known.group_contents, server, list);
                changes
                    .into_iter()
                    .for_each(|change| self.group_content_changed(&change));
            }
            Kind::GroupClass => {
                for change in changes(&mut known.group_classes, server, list) {
                    if let store::Change::Upserted { key, .. } = change {
                        self.observe(Change::GroupClass(key.as_str().into()));
                    }
                }
            }
            Kind::Node => {}
        }
    }

    fn group_changed(&mut self, change: &store::Change<Group>) {
        let (old, new, own) = parts(change);
        self.observe(Change::Group { old, new, own });
    }

    fn group_content_changed(&mut self, change: &store::Change<GroupContent>) {
        let (old, new, own) = parts(change);
        self.observe(Change::GroupContent { old, new, own });
    }

    fn snapshot_changed(&mut self, change: &store::Change<Snapshot>) {
        let (old, new, own) = parts(change);
        let mutant = self.known.mutant;
        let (old, new) = (mutant.hears_snapshot(old), mutant.hears_snapshot(new));
        let gone = new.is_none().then(|| key_of(change));
        self.observe(Change::Snapshot {
            old: old.as_ref(),
            new: new.as_ref(),
            own,
        });
        mutant.heard(gone, &mut self.controller);
    }

    fn content_changed(&mut self, change: &store::Change<Content>) {
        let (old, new, own) = parts(change);
        self.observe(Change::Content { old, new, own });
    }

    fn claim_changed(&mut self, change: &store::Change<Claim>) {
        let (old, new, _) = parts(change);
        let mutant = self.known.mutant;
        let (old, new) = (mutant.hears_claim(old), mutant.hears_claim(new));
        self.observe(Change::Claim {
            key: key_of(change),
            old: old.as_ref(),
            new: new.as_ref(),
        });
    }

    fn volume_changed(&mut self, change: &store::Change<Volume>) {
        if let store::Change::Upserted { key, .. } = change {
            self.observe(Change::Volume(key.as_str().into()));
        }
    }

    fn observe(&mut self, change: Change<'_>) {
        let mutant = self.known.mutant;
        let Some(change) = mutant.hears(change) else {
            return;
        };
        let due = self.controller.observe(change, &self.known);
        self.take(due);
    }

    pub(super) fn take(&mut self, due: Due<Key, Notice>) {
        let mutant = self.known.mutant;
        let wakes = due.wakes.into_iter().map(|wake| wake.key);
        self.ready.extend(wakes.filter(|key| mutant.wakes(key)));
        for notice in due.notices {
            if let Notice::Event(event) = notice
                && event.warning
            {
                let about = crate::model::key(&event.about.namespace, &event.about.name);
                self.warnings.push((event.reason, about, event.message));
            }
        }
    }

    /// Keys that could be worked on now.
    pub(super) fn startable(&self) -> Vec<Key> {
        let busy = |key: &&Key| self.running.iter().any(|running| running.key == **key);
        self.ready
            .iter()
            .filter(|key| !busy(key))
            .cloned()
            .collect()
    }

    pub(super) fn begin(&mut self, key: &Key) {
        self.ready.remove(key);
        self.later.remove(key);
        self.running.push(Running {
            key: key.clone(),
            attempt: self.controller.begin(key, &self.known, now()),
            state: State::Deciding,
        });
    }

    /// The next step of attempt `index`; `None` if the attempt is over, and ended.
    pub(super) fn decide(&mut self, index: usize) -> Option<Step> {
        let mutant = self.known.mutant;
        let running = &mut self.running[index];
        let step = self
            .controller
            .decide(&mut running.attempt, &self.known, now());
        mutant.decided(&running.key, &mut self.controller);
        if let Some(step) = step {
            let step = mutant.wants(step);
            self.announce(&step);
            return Some(step);
        }
        let running = self.running.remove(index);
        let (verdict, due) = self.controller.end(running.attempt, &self.known, now());
        self.take(due);
        if let Verdict::Retry { .. } = verdict
            && mutant.retries()
        {
            self.later.insert(running.key);
        }
        None
    }

    fn announce(&mut self, step: &Step) {
        if matches!(step, Step::Read(Object::Claims(..))) {
            return;
        }
        let (kind, key) = about(step);
        let known = &mut self.known;
        match kind {
            Kind::Snapshot => known.snapshots.announce(&key),
            Kind::Content => known.contents.announce(&key),
            Kind::Claim => known.claims.announce(&key),
            Kind::Volume => known.volumes.announce(&key),
            Kind::Group => known.groups.announce(&key),
            Kind::GroupContent => known.group_contents.announce(&key),
            Kind::Class | Kind::Node | Kind::GroupClass => {}
        }
    }

    /// The answer arrives: first in the cache, then in the attempt.
    pub(super) fn answer(&mut self, index: usize, step: Step, answer: Answer, json: Option<&str>) {
        let (kind, key) = match &step {
            // No cache takes that in.
            Step::Read(Object::Claims(namespace, _)) => (Kind::Node, namespace.clone()),
            step @ (Step::Read(_)
            | Step::Patch(..)
            | Step::PatchStatus(..)
            | Step::Create(..)
            | Step::Delete(..)
            | Step::UpdateClaim(..)) => about(step),
        };
        let known = &mut self.known;
        match kind {
            Kind::Snapshot => {
                let change = known.snapshots.answered(&key, json);
                change
                    .into_iter()
                    .for_each(|change| self.snapshot_changed(&change));
            }
            Kind::Content => {
                let change = known.contents.answered(&key, json);
                change
                    .into_iter()
                    .for_each(|change| self.content_changed(&change));
            }
            Kind::Claim => {
                let change = known.claims.answered(&key, json);
                change
                    .into_iter()
                    .for_each(|change| self.claim_changed(&change));
            }
            Kind::Volume => {
                let change = known.volumes.answered(&key, json);
                change
                    .into_iter()
                    .for_each(|change| self.volume_changed(&change));
            }
            Kind::Group => {
                let change = known.groups.answered(&key, json);
                change
                    .into_iter()
                    .for_each(|change| self.group_changed(&change));
            }
            Kind::GroupContent => {
                let change = known.group_contents.answered(&key, json);
                change
                    .into_iter()
                    .for_each(|change| self.group_content_changed(&change));
            }
            Kind::Class | Kind::Node | Kind::GroupClass => {}
        }
        let answer = self.known.mutant.told(&step, answer);
        let running = &mut self.running[index];
        let due = self
            .controller
            .answered(&mut running.attempt, step, answer, &self.known);
        running.state = State::Deciding;
        self.take(due);
    }
}

/// What a request is about.
pub(super) fn about(step: &Step) -> (Kind, Text) {
    match step {
        Step::Read(of)
        | Step::Patch(of, _)
        | Step::PatchStatus(of, _)
        | Step::Create(of, _)
        | Step::Delete(of, _) => {
            let (kind, key) = kind_and_key(of);
            (kind, key.clone())
        }
        Step::UpdateClaim(key, _) => (Kind::Claim, key.clone()),
    }
}

/// What a request that was applied is answered with.
pub(super) fn answer_of(step: &Step, json: &Text) -> Answer {
    match step {
        Step::Read(Object::Claim(_) | Object::Claims(..)) => Answer::Read(Some(json.clone())),
        Step::Read(_) => Answer::Read(None),
        Step::Patch(..)
        | Step::PatchStatus(..)
        | Step::Create(..)
        | Step::Delete(..)
        | Step::UpdateClaim(..) => Answer::Done,
    }
}

type Sides<'a, R> = (Option<&'a R>, Option<&'a R>, bool);

fn parts<R>(change: &store::Change<R>) -> Sides<'_, R> {
    match change {
        store::Change::Upserted {
            old, new, source, ..
        } => (old.as_deref(), Some(&**new), *source == Source::Own),
        store::Change::Deleted { old, .. } => (Some(&**old), None, false),
    }
}

fn key_of<R>(change: &store::Change<R>) -> Text {
    match change {
        store::Change::Upserted { key, .. } | store::Change::Deleted { key, .. } => {
            key.as_str().into()
        }
    }
}
