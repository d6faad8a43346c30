//! One resizer process: the shipped controller, caches fed by late events, a queue that is a set, and
//! attempts that advance step by step.
//!
//! The caches are the real ones, without their locks.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed, and mutants differ in one point"
)]

use std::sync::Arc;

use sidecar::controller::reactor::{Reactor as _, Verdict};
use sidecar::kube::cache::store;
use sidecar_testkit::sim::attempts::Attempts;
use sidecar_testkit::sim::watch::{Versioned, Watch, key};

use super::attempt::{Object, learnt};
use super::informers::Informers;
use super::mutant::Mutant;
use super::server::{Event, Server};
use crate::model::{AttributesClass, Claim, Pod, Text, Volume};
use crate::plan::attempt::End;
use crate::plan::event::Origin;
use crate::plan::reactor::{Change, Run};
use crate::plan::request::{self, Reply, Request};
use crate::plan::{self, Driver, Kind, Resizer, Settings, Task};
use crate::testing::NOW;

pub(super) struct Process {
    pub(super) attempts: Attempts<Self>,
    pub(super) informers: Informers,
    pub(super) settings: Settings,
    pub(super) mutant: Mutant,
    /// Length of the server's log when this process started.
    pub(super) began: usize,
}

impl Process {
    /// A process that has just started all its lists.
    pub(super) fn start(
        server: &Server,
        (driver, settings): (Driver, Settings),
        mutant: Mutant,
    ) -> Self {
        let mut process = Self {
            attempts: Attempts::new(Resizer::new(&driver, &settings), NOW),
            informers: Informers {
                claims: Watch::only(Claim::is_open),
                volumes: Watch::new(),
                driver: Arc::new(driver),
                classes: Watch::new(),
                pods: Watch::new(),
                mutant,
            },
            settings,
            mutant,
            began: server.log.len(),
        };
        if mutant == Mutant::OpensEarly {
            for kind in Kind::ALL {
                process.changed(Change::Listed(kind));
            }
        }
        process.relist(server);
        process
    }

    /// Starts all lists anew, as at the start and after broken watches.
    pub(super) fn relist(&mut self, server: &Server) {
        let log = &server.log;
        self.informers.volumes.begin_list(&server.volumes, log);
        let claims = server.claims.iter();
        let claims = claims
            .map(|(name, (version, claim))| (name.clone(), (*version, Claim::new(claim.clone()))));
        self.informers.claims.begin_list(&claims.collect(), log);
        self.informers.classes.begin_list(&server.classes, log);
        self.informers.pods.begin_list(&server.pods, log);
    }

    /// Completes all lists at once.
    pub(super) fn list(&mut self, server: &Server) {
        self.relist(server);
        self.fill();
    }

    /// Reads the remaining pages of the lists.
    pub(super) fn fill(&mut self) {
        for kind in 0..4 {
            while self.page(kind) {}
        }
    }

    /// Reads the next page of a list; returns whether a list was in progress.
    pub(super) fn page(&mut self, kind: usize) -> bool {
        let under_way = match kind {
            0 => self.informers.claims.is_listing(),
            1 => self.informers.volumes.is_listing(),
            2 => self.informers.classes.is_listing(),
            _ => self.informers.pods.is_listing(),
        };
        match kind {
            0 => {
                for change in self.informers.claims.page() {
                    self.claim_changed(&change);
                }
            }
            1 => {
                for change in self.informers.volumes.page() {
                    self.volume_changed(&change);
                }
            }
            2 => {
                for change in self.informers.classes.page() {
                    self.class_changed(&change);
                }
            }
            _ => {
                for change in self.informers.pods.page() {
                    self.pod_changed(&change);
                }
            }
        }
        let both = self.informers.claims.synced && self.informers.volumes.synced;
        for (kind, known) in [
            (Kind::Expand, both && self.informers.pods.synced),
            (Kind::Modify, both && self.informers.classes.synced),
        ] {
            if known {
                self.changed(Change::Listed(kind));
            }
        }
        under_way
    }

    fn changed(&mut self, change: Change<'_>) {
        let heard = match (self.mutant, &change) {
            (Mutant::OverhearsNews, Change::Claim { origin, .. }) => *origin == Origin::Watch,
            (Mutant::ForgetsVolumes, Change::Volume { .. })
            | (Mutant::ForgetsClasses, Change::Class { .. }) => false,
            _ => true,
        };
        let due = self.attempts.reactor.observe(change, &self.informers);
        if heard {
            self.attempts.take(due);
        }
    }

    /// Takes in one event of the server's log.
    pub(super) fn observe(&mut self, (version, event): &Versioned<Event>) {
        match event.clone() {
            Event::Claim(name, object) => {
                let object = object.map(Claim::new);
                if let Some(change) = self.informers.claims.observe(&name, object, *version) {
                    self.claim_changed(&change);
                }
            }
            Event::Volume(name, object) => {
                if let Some(change) = self.informers.volumes.observe(&name, object, *version) {
                    self.volume_changed(&change);
                }
            }
            Event::Class(name, object) => {
                if let Some(change) = self.informers.classes.observe(&name, object, *version) {
                    self.class_changed(&change);
                }
            }
            Event::Pod(name, object) => {
                if let Some(change) = self.informers.pods.observe(&name, object, *version) {
                    self.pod_changed(&change);
                }
            }
        }
    }

    fn claim_changed(&mut self, change: &store::Change<Claim>) {
        let (key, old, new, origin) = match change {
            store::Change::Upserted {
                key,
                old,
                new,
                source,
            } => (key, old.as_deref(), Some(&**new), Origin::from(*source)),
            store::Change::Deleted { key, old } => (key, Some(&**old), None, Origin::Watch),
        };
        let key = Text::from(key.as_str());
        self.changed(Change::Claim {
            key,
            old,
            new,
            origin,
        });
    }

    fn volume_changed(&mut self, change: &store::Change<Volume>) {
        let (key, old, new) = match change {
            store::Change::Upserted { key, old, new, .. } => (key, old.as_deref(), Some(&**new)),
            store::Change::Deleted { key, old } => (key, Some(&**old), None),
        };
        let name = Text::from(key.as_str());
        self.changed(Change::Volume { name, old, new });
    }

    fn class_changed(&mut self, change: &store::Change<AttributesClass>) {
        let (key, old, new) = match change {
            store::Change::Upserted { key, old, new, .. } => (key, old.as_deref(), Some(&**new)),
            store::Change::Deleted { key, old } => (key, Some(&**old), None),
        };
        let name = Text::from(key.as_str());
        self.changed(Change::Class { name, old, new });
    }

    fn pod_changed(&mut self, change: &store::Change<Pod>) {
        let (old, new) = match change {
            store::Change::Upserted { old, new, .. } => (old.as_deref(), Some(&**new)),
            store::Change::Deleted { old, .. } => (Some(&**old), None),
        };
        self.changed(Change::Pod { old, new });
    }

    pub(super) fn driver_is_back(&mut self) {
        self.changed(Change::DriverBack);
    }

    /// Begins an attempt on a queued task.
    pub(super) fn begin(&mut self, task: &Task) {
        let attempts = &mut self.attempts;
        attempts.dequeue(task);
        let now = attempts.now;
        let run = match self.mutant {
            Mutant::None => attempts.reactor.begin(task, &self.informers, now),
            Mutant::TakesUnknownForGone if self.informers.claims.get(&task.claim).is_none() => {
                Run::new(task, None)
            }
            mutant => {
                let mut started = attempts.reactor.start(task, &self.informers, now.instant);
                if let Some((_, start)) = &mut started {
                    mutant.begins(task.kind, start);
                }
                Run::new(task, started)
            }
        };
        attempts.push(task, run);
    }

    /// The next request of attempt `index`; `None` if the attempt has ended.
    pub(super) fn decide(&mut self, index: usize) -> Option<Request> {
        let Some(request) = self.attempts.decide(index, &self.informers) else {
            self.finish(index);
            return None;
        };
        let running = &mut self.attempts.running[index];
        let known = plan::Informers::claim(&self.informers, &running.key.claim);
        let held = { learnt(running).volume(known.as_deref()) }
            .and_then(|name| self.informers.volumes.get(&name))
            .and_then(|volume| volume.capacity);
        let claim = known.as_deref().and_then(Claim::detail);
        let Some(request) = self.mutant.decides(request, claim, held) else {
            running.attempt.over = Some(End::Done);
            self.finish(index);
            return None;
        };
        let in_flight = &mut self.attempts.reactor.in_flight;
        self.mutant.calls(&request, in_flight);
        Some(request)
    }

    /// The controller gets the reply to the last request of attempt `index`.
    pub(super) fn answer(&mut self, index: usize, reply: Reply) {
        let reply = self.mutant.hears(reply);
        let held = self.mutant.holds(&reply);
        let task = self.attempts.running[index].key.clone();
        let due = { &mut self.attempts }.answer(index, reply, &self.informers);
        if let Some(handle) = held {
            let calls = &mut self.attempts.reactor.in_flight.calls;
            let _held = calls.begin(&handle, task);
        }
        if self.mutant != Mutant::EndsCallsUnheard {
            self.attempts.take(due);
        }
    }

    /// The cache learns that a request is about to be sent.
    pub(super) fn announce(&mut self, request: &Request) {
        let object = match request {
            Request::Get(object) => object,
            Request::Write(write) => &write.object,
            _ => return,
        };
        match object {
            request::Object::Claim(of) => self.informers.claims.slots.begin_write(&key(of)),
            request::Object::Volume(of) => self.informers.volumes.slots.begin_write(&key(of)),
        }
    }

    /// The caches take in the response to a request; `None` is a failure.
    pub(super) fn absorb(&mut self, reply: &Reply, object: Option<Object>) {
        let of = match reply {
            Reply::Get(object, _) => object,
            Reply::Write(write, _) => &write.object,
            _ => return,
        };
        match of {
            request::Object::Volume(name) => {
                let slots = &mut self.informers.volumes.slots;
                let change = match object {
                    Some(Object::Volume(found)) => {
                        let (version, object) = *found;
                        slots.write_answered(&key(name), object, version)
                    }
                    _ => slots.write_failed(&key(name)),
                };
                if let Some(change) = change {
                    self.volume_changed(&change);
                }
            }
            request::Object::Claim(claim) => {
                let forgets = self.mutant == Mutant::ForgetsOwnWrites;
                let slots = &mut self.informers.claims.slots;
                let change = match object {
                    Some(Object::Claim(found)) if !forgets => {
                        let (version, object) = *found;
                        slots.write_answered(&key(claim), Claim::new(object), version)
                    }
                    _ => slots.write_failed(&key(claim)),
                };
                if let Some(change) = change {
                    self.claim_changed(&change);
                }
            }
        }
    }

    /// Ends attempt `index`.
    fn finish(&mut self, index: usize) {
        let (task, verdict, mut due) = self.attempts.end(index, &self.informers);
        if self.mutant == Mutant::EndsTurnsUnheard {
            due.wakes.retain(|wake| wake.key == task);
        }
        let attempts = &mut self.attempts;
        attempts.take(due);
        match verdict {
            Verdict::Retry { .. } | Verdict::After { .. }
                if self.mutant == Mutant::ForgetsRetries => {}
            Verdict::Retry { .. } if self.mutant == Mutant::RetriesAtOnce => {
                attempts.ready.insert(task);
            }
            Verdict::Done | Verdict::Retry { .. } | Verdict::After { .. } => {
                attempts.settle(task, &verdict);
            }
        }
    }
}
