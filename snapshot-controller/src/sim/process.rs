//! One process: the controller that ships, caches fed by late events, queues that are sets, and
//! attempts that advance step by step.

use std::convert::Infallible;

use sidecar::controller::reactor::{Due, Reactor as _, Verdict};
use sidecar::kube::cache::store;
use sidecar_testkit::sim::attempts::{self, Attempts, Simulated};
use sidecar_testkit::sim::informer::parts;

use super::known::Known;
use super::mutant::Mutant;
use crate::model::{Claim, Content, Group, GroupContent, Snapshot, Text, Volume};
use crate::plan::in_flight::Key;
use crate::plan::reactor::{Change, Controller, Notice};
use crate::plan::request::{Object, Reply, Request};
use crate::testing::request::kind_and_key;
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

pub(super) type State = attempts::State<Process>;

impl Simulated for Process {
    type Reactor = Controller;
    type Object = Text;
    type Waiting = Infallible;
    type Note = ();
}

pub(super) struct Process {
    pub(super) attempts: Attempts<Self>,
    pub(super) known: Known,
    /// Warnings told since the last look: reason, key of the object, text.
    pub(super) warnings: Vec<(&'static str, Text, String)>,
}

impl Process {
    /// One that serves groups, or does not.
    pub(super) fn start(mutant: Mutant, groups: bool) -> Self {
        Self {
            attempts: Attempts::new(Controller::default(), "2026-01-02T03:04:05Z"),
            known: Known::new(mutant, groups),
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
        let known = &mut self.known;
        match kind {
            Kind::Snapshot => {
                let changes = known.snapshots.next(server, list);
                changes
                    .into_iter()
                    .for_each(|change| self.snapshot_changed(&change));
            }
            Kind::Content => {
                let changes = known.contents.next(server, list);
                changes
                    .into_iter()
                    .for_each(|change| self.content_changed(&change));
            }
            Kind::Claim => {
                let changes = known.claims.next(server, list);
                changes
                    .into_iter()
                    .for_each(|change| self.claim_changed(&change));
            }
            Kind::Class => {
                for change in known.classes.next(server, list) {
                    self.observe(Change::Class(key_of(&change)));
                }
            }
            Kind::Volume => {
                for change in known.volumes.next(server, list) {
                    self.volume_changed(&change);
                }
            }
            Kind::Group => {
                let changes = known.groups.next(server, list);
                changes
                    .into_iter()
                    .for_each(|change| self.group_changed(&change));
            }
            Kind::GroupContent => {
                let changes = known.group_contents.next(server, list);
                changes
                    .into_iter()
                    .for_each(|change| self.group_content_changed(&change));
            }
            Kind::GroupClass => {
                for change in known.group_classes.next(server, list) {
                    self.observe(Change::GroupClass(key_of(&change)));
                }
            }
            Kind::Node => {}
        }
    }

    fn group_changed(&mut self, change: &store::Change<Group>) {
        let (_, old, new, own) = parts(change);
        self.observe(Change::Group { old, new, own });
    }

    fn group_content_changed(&mut self, change: &store::Change<GroupContent>) {
        let (_, old, new, own) = parts(change);
        self.observe(Change::GroupContent { old, new, own });
    }

    fn snapshot_changed(&mut self, change: &store::Change<Snapshot>) {
        let (_, old, new, own) = parts(change);
        let mutant = self.known.mutant;
        let (old, new) = (mutant.hears_snapshot(old), mutant.hears_snapshot(new));
        let gone = new.is_none().then(|| key_of(change));
        self.observe(Change::Snapshot {
            old: old.as_ref(),
            new: new.as_ref(),
            own,
        });
        mutant.heard(gone, &mut self.attempts.reactor);
    }

    fn content_changed(&mut self, change: &store::Change<Content>) {
        let (_, old, new, own) = parts(change);
        self.observe(Change::Content { old, new, own });
    }

    fn claim_changed(&mut self, change: &store::Change<Claim>) {
        let (_, old, new, _) = parts(change);
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
        let due = self.attempts.reactor.observe(change, &self.known);
        self.take(due);
    }

    pub(super) fn take(&mut self, mut due: Due<Key, Notice>) {
        let mutant = self.known.mutant;
        due.wakes.retain(|wake| mutant.wakes(&wake.key));
        let notices = std::mem::take(&mut due.notices);
        self.attempts.take(due);
        for notice in notices {
            if let Notice::Event(event) = notice
                && event.warning
            {
                let about = crate::model::key(&event.about.namespace, &event.about.name);
                self.warnings.push((event.reason, about, event.message));
            }
        }
    }

    pub(super) fn begin(&mut self, key: &Key) {
        self.attempts.begin(key, &self.known);
    }

    /// The next step of attempt `index`; `None` if the attempt is over, and ended.
    pub(super) fn decide(&mut self, index: usize) -> Option<Request> {
        let (mutant, attempts) = (self.known.mutant, &mut self.attempts);
        let request = attempts.decide(index, &self.known);
        mutant.decided(&attempts.running[index].key, &mut attempts.reactor);
        if let Some(request) = request {
            let request = mutant.wants(request);
            match &request {
                Request::Get(object) => self.announce(object),
                Request::Write(write) => self.announce(&write.object),
                Request::Secret(_) | Request::Call(_) | Request::Event(_) => {}
            }
            return Some(request);
        }
        let (key, verdict, due) = attempts.end(index, &self.known);
        self.take(due);
        if let Verdict::Retry { .. } = verdict
            && mutant.retries()
        {
            self.attempts.settle(key, &verdict);
        }
        None
    }

    fn announce(&mut self, object: &Object) {
        let Some((kind, key)) = cached(object) else {
            return;
        };
        let known = &mut self.known;
        match kind {
            Kind::Snapshot => known.snapshots.begin_write(key),
            Kind::Content => known.contents.begin_write(key),
            Kind::Claim => known.claims.begin_write(key),
            Kind::Volume => known.volumes.begin_write(key),
            Kind::Group => known.groups.begin_write(key),
            Kind::GroupContent => known.group_contents.begin_write(key),
            Kind::Class | Kind::Node | Kind::GroupClass => {}
        }
    }

    /// The answer arrives: first in the cache, then in the attempt.
    pub(super) fn answer(&mut self, index: usize, reply: Reply, json: Option<&str>) {
        match &reply {
            Reply::Get(object, _) => self.take_in(object, json),
            Reply::Write(write, _) => self.take_in(&write.object, json),
            Reply::Secret(..) | Reply::Call(..) | Reply::Event(_) => {}
        }
        let reply = self.known.mutant.told(reply);
        let due = self.attempts.answer(index, reply, &self.known);
        self.take(due);
    }

    fn take_in(&mut self, object: &Object, json: Option<&str>) {
        let Some((kind, key)) = cached(object) else {
            return;
        };
        let known = &mut self.known;
        match kind {
            Kind::Snapshot => {
                let change = known.snapshots.end_write(key, json);
                change
                    .into_iter()
                    .for_each(|change| self.snapshot_changed(&change));
            }
            Kind::Content => {
                let change = known.contents.end_write(key, json);
                change
                    .into_iter()
                    .for_each(|change| self.content_changed(&change));
            }
            Kind::Claim => {
                let change = known.claims.end_write(key, json);
                change
                    .into_iter()
                    .for_each(|change| self.claim_changed(&change));
            }
            Kind::Volume => {
                let change = known.volumes.end_write(key, json);
                change
                    .into_iter()
                    .for_each(|change| self.volume_changed(&change));
            }
            Kind::Group => {
                let change = known.groups.end_write(key, json);
                change
                    .into_iter()
                    .for_each(|change| self.group_changed(&change));
            }
            Kind::GroupContent => {
                let change = known.group_contents.end_write(key, json);
                change
                    .into_iter()
                    .for_each(|change| self.group_content_changed(&change));
            }
            Kind::Class | Kind::Node | Kind::GroupClass => {}
        }
    }
}

/// The kind and key of an object that a cache keeps.
fn cached(object: &Object) -> Option<(Kind, &Text)> {
    let is_list = matches!(object, Object::Claims(..));
    (!is_list).then(|| kind_and_key(object))
}

fn key_of<R>(change: &store::Change<R>) -> Text {
    match change {
        store::Change::Upserted { key, .. } | store::Change::Deleted { key, .. } => {
            key.as_str().into()
        }
    }
}
