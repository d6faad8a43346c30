//! One resizer process: caches fed by late events, a queue, and attempts that advance step by step.
//!
//! The caches are the real ones, without their locks.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed, and mutants differ in one point"
)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sidecar::kube::cache::slots::Change;

use super::mutant::Mutant;
use super::server::{Event, Server, Versioned};
use super::watch::{Watch, key};
use crate::model::{AttributesClass, Claim, ClaimDetail, Pod, Text, Volume};
use crate::plan::attempt::Attempt;
use crate::plan::event::Origin;
use crate::plan::memory::{Memory, Next};
use crate::plan::step::{Answer, End, Step};
use crate::plan::sync_gate::SyncGates;
use crate::plan::view::Caches;
use crate::plan::{Driver, Kind, Settings, Task};
use crate::testing::NOW;

/// An attempt under way.
pub(super) struct Running {
    pub(super) task: Task,
    pub(super) attempt: Attempt,
    /// The handle for which a call is in flight, as the books know it.
    pub(super) flight: Option<Text>,
    pub(super) state: State,
}

pub(super) enum State {
    Deciding,
    /// Sent to the API server, not yet applied.
    Sent(Step),
    /// The driver works on it.
    Calling(Step, u64),
    /// The answer is on its way; with the object if there is one.
    Answered(Step, Answer, Option<Object>),
}

/// What a request returned.
pub(super) enum Object {
    Claim(Box<Versioned<ClaimDetail>>),
    Volume(Box<Versioned<Volume>>),
}

pub(super) struct Process {
    pub(super) driver: Driver,
    pub(super) settings: Settings,
    pub(super) mutant: Mutant,
    pub(super) claims: Watch<Claim>,
    pub(super) volumes: Watch<Volume>,
    pub(super) classes: Watch<AttributesClass>,
    pub(super) pods: Watch<Pod>,
    gates: SyncGates,
    pub(super) ready: BTreeSet<Task>,
    pub(super) later: BTreeSet<Task>,
    pub(super) running: Vec<Running>,
    pub(super) memory: Memory,
    pub(super) now: Instant,
    /// How far the server's log was when this began.
    pub(super) began: usize,
}

impl Process {
    /// A process that has just begun to list everything.
    pub(super) fn start(
        server: &Server,
        (driver, settings): (Driver, Settings),
        mutant: Mutant,
    ) -> Self {
        let mut process = Self {
            memory: Memory::new(&settings),
            gates: SyncGates::new(driver.abilities, &settings),
            driver,
            settings,
            mutant,
            claims: Watch::new(),
            volumes: Watch::new(),
            classes: Watch::new(),
            pods: Watch::new(),
            ready: BTreeSet::new(),
            later: BTreeSet::new(),
            running: Vec::new(),
            now: Instant::now(),
            began: server.log.len(),
        };
        if mutant == Mutant::OpensEarly {
            for kind in Kind::ALL {
                process.gates.open(kind);
            }
        }
        process.relist(server);
        process
    }

    /// Begins to list everything anew, as at the start and after watches broke.
    pub(super) fn relist(&mut self, server: &Server) {
        let log = &server.log;
        self.volumes.begin_list(&server.volumes, log);
        let claims = server.claims.iter();
        let claims = claims
            .map(|(name, (version, claim))| (name.clone(), (*version, Claim::new(claim.clone()))));
        self.claims.begin_list(&claims.collect(), log);
        self.classes.begin_list(&server.classes, log);
        self.pods.begin_list(&server.pods, log);
    }

    /// Lists everything anew, in one go.
    pub(super) fn list(&mut self, server: &Server) {
        self.relist(server);
        self.fill();
    }

    /// The rest of the lists.
    pub(super) fn fill(&mut self) {
        for kind in 0..4 {
            while self.page(kind) {}
        }
    }

    /// The next page of a list; whether one was under way.
    pub(super) fn page(&mut self, kind: usize) -> bool {
        let under_way = match kind {
            0 => self.claims.is_listing(),
            1 => self.volumes.is_listing(),
            2 => self.classes.is_listing(),
            _ => self.pods.is_listing(),
        };
        match kind {
            0 => {
                for change in self.claims.page() {
                    self.claim_changed(&change);
                }
            }
            1 => {
                for change in self.volumes.page() {
                    self.volume_changed(&change);
                }
            }
            2 => {
                for change in self.classes.page() {
                    self.class_changed(&change);
                }
            }
            _ => {
                for change in self.pods.page() {
                    self.pod_changed(&change);
                }
            }
        }
        let both = self.claims.synced && self.volumes.synced;
        for (kind, known) in [
            (Kind::Expand, both && self.pods.synced),
            (Kind::Modify, both && self.classes.synced),
        ] {
            if known {
                let early = self.gates.open(kind);
                self.ready.extend(early);
            }
        }
        under_way
    }

    /// Puts these into the queue.
    pub(super) fn wake(&mut self, tasks: impl IntoIterator<Item = Task>) {
        let due = self.gates.pass(tasks);
        self.ready.extend(due);
    }

    /// Takes in one event of the server's log.
    pub(super) fn observe(&mut self, (version, event): &Versioned<Event>) {
        match event.clone() {
            Event::Claim(name, object) => {
                let object = object.map(Claim::new);
                if let Some(change) = self.claims.observe(&name, object, *version) {
                    self.claim_changed(&change);
                }
            }
            Event::Volume(name, object) => {
                if let Some(change) = self.volumes.observe(&name, object, *version) {
                    self.volume_changed(&change);
                }
            }
            Event::Class(name, object) => {
                if let Some(change) = self.classes.observe(&name, object, *version) {
                    self.class_changed(&change);
                }
            }
            Event::Pod(name, object) => {
                if let Some(change) = self.pods.observe(&name, object, *version) {
                    self.pod_changed(&change);
                }
            }
        }
    }

    fn claim_changed(&mut self, change: &Change<Claim>) {
        let (key, old, new, origin) = match change {
            Change::Upserted {
                key,
                old,
                new,
                source,
            } => (key, old.as_deref(), Some(&**new), Origin::from(*source)),
            Change::Deleted { key, old } => (key, Some(&**old), None, Origin::Watch),
        };
        let key = Text::from(key.as_str());
        let tasks = self.memory.claim_changed(&key, old, new, origin);
        if self.mutant != Mutant::OverhearsNews || origin == Origin::Watch {
            self.wake(tasks);
        }
    }

    fn volume_changed(&mut self, change: &Change<Volume>) {
        let (key, old, new) = match change {
            Change::Upserted { key, old, new, .. } => (key, old.as_deref(), Some(&**new)),
            Change::Deleted { key, old } => (key, Some(&**old), None),
        };
        let name = Text::from(key.as_str());
        let tasks = self.memory.volume_changed(&name, old, new, &self.driver);
        if self.mutant != Mutant::ForgetsVolumes {
            self.wake(tasks);
        }
    }

    fn class_changed(&mut self, change: &Change<AttributesClass>) {
        let (key, old, new) = match change {
            Change::Upserted { key, old, new, .. } => (key, old.as_deref(), Some(&**new)),
            Change::Deleted { key, old } => (key, Some(&**old), None),
        };
        let name = Text::from(key.as_str());
        let tasks = self.memory.class_changed(&name, old, new);
        if self.mutant != Mutant::ForgetsClasses {
            self.wake(tasks);
        }
    }

    fn pod_changed(&mut self, change: &Change<Pod>) {
        let (old, new) = match change {
            Change::Upserted { old, new, .. } => (old.as_deref(), Some(&**new)),
            Change::Deleted { old, .. } => (Some(&**old), None),
        };
        let tasks = self.memory.pod_changed(old, new);
        self.wake(tasks);
    }

    /// Begins an attempt on a queued task.
    pub(super) fn begin(&mut self, task: &Task) {
        self.ready.remove(task);
        let Some(claim) = self.claims.get(&task.claim) else {
            return;
        };
        let Some(mut start) = self.memory.begin(task, &claim, self.now) else {
            return;
        };
        self.mutant.begins(&mut start);
        self.running.push(Running {
            task: task.clone(),
            attempt: Attempt::new(task, &claim, start),
            flight: None,
            state: State::Deciding,
        });
    }

    /// The next step of attempt `index`.
    pub(super) fn decide(&self, index: usize) -> Step {
        let Running { task, attempt, .. } = &self.running[index];
        let step = attempt.look(self, (&self.driver, &self.settings), NOW);
        let claim = self.claim(&task.claim);
        let claim = claim.as_deref();
        let held = attempt
            .volume(claim)
            .and_then(|name| self.volumes.get(&name));
        let held = held.and_then(|volume| volume.capacity);
        self.mutant
            .decides(step, claim.and_then(Claim::detail), held)
    }

    /// A request about an object is about to be sent.
    pub(super) fn announce(&mut self, claim: &Text, step: &Step) {
        match step {
            Step::PatchVolume(name, ..) | Step::ReadVolume(name) => {
                self.volumes.slots.begin_write(&key(name));
            }
            _ => self.claims.slots.begin_write(&key(claim)),
        }
    }

    /// Takes the answer to a request about an object into the caches; `None` is a failure.
    pub(super) fn absorb(&mut self, claim: &Text, step: &Step, object: Option<Object>) {
        if let Step::PatchVolume(name, ..) | Step::ReadVolume(name) = step {
            let slots = &mut self.volumes.slots;
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
            return;
        }
        let forgets = self.mutant == Mutant::ForgetsOwnWrites;
        let slots = &mut self.claims.slots;
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

    /// Ends attempt `index`.
    pub(super) fn finish(&mut self, index: usize, end: &End) {
        let running = self.running.remove(index);
        let task = running.task;
        let ended = self.memory.end(&task, &running.attempt, end, self.now);
        self.wake(ended.woken);
        match ended.next {
            Next::Forget => {}
            Next::Again => {
                self.ready.insert(task);
            }
            Next::Backoff | Next::After(_) if self.mutant == Mutant::ForgetsRetries => {}
            Next::Backoff if self.mutant == Mutant::RetriesAtOnce => {
                self.ready.insert(task);
            }
            Next::Backoff | Next::After(_) => {
                self.later.insert(task);
            }
        }
    }

    /// Time passes.
    pub(super) fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }
}

impl Caches for Process {
    fn claim(&self, key: &Text) -> Option<Arc<Claim>> {
        Some(self.mutant.sees(self.claims.get(key)?))
    }

    fn volume(&self, name: &Text) -> Option<(Arc<Volume>, u64)> {
        let (volume, version) = self.volumes.slots.get_versioned(name)?;
        Some((self.mutant.sees_volume(volume), version))
    }

    fn class(&self, name: &Text) -> Option<Arc<AttributesClass>> {
        Some(self.mutant.sees_class(self.classes.get(name)?))
    }

    fn in_use(&self, claim: &Text) -> bool {
        self.memory.in_use(claim)
    }
}
