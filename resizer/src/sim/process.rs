//! One resizer process: caches fed by late events, a queue, and attempts that advance step by step.
//!
//! The caches are the real ones, without their locks.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed, and mutants differ in one point"
)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sidecar::kube::cache::Source;
use sidecar::kube::cache::slots::Change;

use super::mutant::Mutant;
use super::server::{Event, Server, Versioned};
use super::watch::{Watch, key};
use crate::model::{AttributesClass, Claim, ClaimDetail, Pod, Text, Volume};
use crate::plan::attempt::Attempt;
use crate::plan::event::Origin;
use crate::plan::memory::{Memory, Next};
use crate::plan::step::{Answer, End, Step};
use crate::plan::{Driver, Settings, Task, View};
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
    pub(super) ready: BTreeSet<Task>,
    pub(super) later: BTreeSet<Task>,
    pub(super) running: Vec<Running>,
    pub(super) memory: Memory,
    pub(super) now: Instant,
}

impl Process {
    /// A process that has just listed everything.
    pub(super) fn start(server: &Server, driver: Driver, mutant: Mutant) -> Self {
        let settings = Settings::default();
        let mut process = Self {
            driver,
            memory: Memory::new(&settings),
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
        };
        process.list(server);
        process
    }

    /// Lists everything anew, as at the start and after a watch broke.
    pub(super) fn list(&mut self, server: &Server) {
        let log = &server.log;
        for change in self.volumes.list(&server.volumes, log) {
            self.volume_changed(&change);
        }
        let claims = server.claims.iter();
        let claims = claims
            .map(|(name, (version, claim))| (name.clone(), (*version, Claim::new(claim.clone()))));
        for change in self.claims.list(&claims.collect(), log) {
            self.claim_changed(&change);
        }
        for change in self.classes.list(&server.classes, log) {
            self.class_changed(&change);
        }
        for change in self.pods.list(&server.pods, log) {
            self.pod_changed(&change);
        }
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
        match change {
            Change::Upserted {
                key,
                old,
                new,
                source,
            } => {
                let origin = match source {
                    Source::Watch => Origin::Watch,
                    Source::Own => Origin::Own,
                };
                let key = Text::from(key.as_str());
                let tasks = self.memory.claim_changed(&key, old.as_deref(), new, origin);
                if self.mutant != Mutant::OverhearsNews || origin == Origin::Watch {
                    self.ready.extend(tasks);
                }
            }
            Change::Deleted { key, .. } => self.memory.claim_gone(&key.as_str().into()),
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
            self.ready.extend(tasks);
        }
    }

    fn class_changed(&mut self, change: &Change<AttributesClass>) {
        if let Change::Upserted { key, old, new, .. } = change {
            let name = Text::from(key.as_str());
            let tasks = self.memory.class_changed(&name, old.as_deref(), new);
            if self.mutant != Mutant::ForgetsClasses {
                self.ready.extend(tasks);
            }
        }
    }

    fn pod_changed(&mut self, change: &Change<Pod>) {
        let (old, new) = match change {
            Change::Upserted { old, new, .. } => (old.as_deref(), Some(&**new)),
            Change::Deleted { old, .. } => (Some(&**old), None),
        };
        self.ready.extend(self.memory.pod_changed(old, new));
    }

    /// Begins an attempt on a queued task.
    pub(super) fn begin(&mut self, task: &Task) {
        self.ready.remove(task);
        let Some(claim) = self.claims.get(&task.claim).cloned() else {
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
        let claim = self.claims.get(&task.claim);
        let claim = claim.map(|claim| self.mutant.sees(claim));
        let claim = claim.as_deref();
        let volume = attempt.volume(claim);
        let volume = volume.and_then(|name| self.volumes.get(&name));
        let volume = volume.map(|volume| self.mutant.sees_volume(volume));
        let class = attempt.class(claim);
        let class = class.and_then(|name| self.classes.get(&name));
        let class = class.map(|class| self.mutant.sees_class(class));
        let step = attempt.decide(&View {
            driver: &self.driver,
            settings: &self.settings,
            claim,
            volume: volume.as_deref(),
            class: class.as_deref(),
            in_use: self.memory.in_use(&task.claim),
            now: NOW,
        });
        self.mutant.decides(step, claim.and_then(Claim::detail))
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
        self.ready.extend(ended.woken);
        match ended.next {
            Next::Forget => {}
            Next::Again => {
                self.ready.insert(task);
            }
            Next::Backoff | Next::After(_) if self.mutant == Mutant::ForgetsRetries => {}
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
