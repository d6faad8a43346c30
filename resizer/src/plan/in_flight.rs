//! State that the process keeps besides its caches. A crash loses it without harm.
//!
//! It is separate, without locks and clocks, so that the crash simulation uses exactly this code:
//! which attempts run, the driver's last response, which objects have to be read again, which task
//! waits for which trigger.

mod annotated;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sidecar::keyed_guard::KeyedGuards;
use sidecar::part::only;
use sidecar::waits::Waits;

use annotated::AnnotatedVolumes;

use super::attempt::Attempt;
use super::attempt::End;
use super::event::{self, Origin};
use super::fairness::{Kind, Task};
use super::marks::Marks;
use super::outcome::RequeueTrigger;
use super::request::Object;
use super::usage::Usage;
use super::{Driver, Settings, modify};
use crate::model::{AttributesClass, Claim, Pod, Text, Uid, Volume};

/// A request that the driver called infeasible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Infeasible {
    /// The request: the size, or the class with its parameters.
    pub what: String,
    /// Time of the response.
    pub since: Instant,
}

/// Input of a new attempt.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// State of the task.
    pub marks: Marks,
    /// Objects to read first: the outcome of the last write is unknown, or the object had changed.
    pub doubts: Vec<Object>,
    /// A request that the driver recently called infeasible, so that it is not repeated yet.
    pub slow: Option<String>,
    /// The PersistentVolume with the annotation of an expansion of this claim.
    pub annotated: Option<Text>,
    /// The cache lacks the claim, which is known from its volume: it has to be read first.
    pub unread: bool,
}

/// The outcome for the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The outcome for the task's own key.
    pub next: Next,
    /// Other tasks to requeue now.
    pub woken: Vec<Task>,
}

/// The outcome for a queue key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Drop it, and its failure count.
    Forget,
    /// Requeue it at once, and drop its failure count.
    Again,
    /// Requeue it after its back-off, which grows.
    Backoff,
    /// Requeue it after this time; the failure count stays.
    After(Duration),
}

/// State of one claim.
#[derive(Clone, Debug, Default)]
struct Entry {
    uid: Uid,
    doubts: Vec<Object>,
    tasks: HashMap<Kind, Memory>,
}

/// State of one task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Memory {
    marks: Marks,
    slow: Option<Infeasible>,
}

/// An attempt under way.
#[derive(Clone, Debug)]
struct Running {
    kind: Kind,
    /// Whether the claim has left the cache since.
    gone: bool,
}

/// The state of one process.
#[derive(Clone, Debug)]
pub struct InFlightState {
    /// Time before a request that the driver called infeasible is repeated.
    retention: Duration,
    claims: HashMap<Text, Entry>,
    /// Which task of a claim runs, and whether the other one waits for it.
    turns: KeyedGuards<Text, Task>,
    running: HashMap<Text, Running>,
    waits: Waits<Task, RequeueTrigger>,
    /// Volumes with the annotation of an expansion, by claim.
    annotated: AnnotatedVolumes,
    usage: Usage,
    /// Calls in flight by volume handle, with the tasks that wait for their end.
    pub calls: KeyedGuards<Text, Task>,
}

impl InFlightState {
    /// Empty state.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self {
            retention: settings.infeasible_wait,
            claims: HashMap::new(),
            turns: KeyedGuards::default(),
            running: HashMap::new(),
            waits: Waits::default(),
            annotated: AnnotatedVolumes::default(),
            usage: Usage::default(),
            calls: KeyedGuards::default(),
        }
    }

    /// What a decision about a task of the claim looks at: of other claims and pods there may be 50,000.
    #[must_use]
    pub fn about(&self, claim: &Text) -> Self {
        Self {
            retention: self.retention,
            claims: only(self.claims.get_key_value(claim)),
            turns: self.turns.clone(),
            running: HashMap::new(),
            waits: Waits::default(),
            annotated: self.annotated.about(claim),
            usage: self.usage.of(claim),
            calls: self.calls.clone(),
        }
    }

    /// The triggers that requeue the task.
    #[must_use]
    pub fn awaited(&self, task: &Task) -> &[RequeueTrigger] {
        self.waits.awaited_by(task)
    }

    /// How long the driver's refusal still keeps the task's request from being repeated.
    #[must_use]
    pub fn refused_for(&self, task: &Task, now: Instant) -> Option<Duration> {
        let memory = self.claims.get(&task.claim)?.tasks.get(&task.kind)?;
        memory.waits(self.retention, now).map(|(_, rest)| rest)
    }

    /// Whether a pod uses the claim.
    #[must_use]
    pub fn in_use(&self, claim: &str) -> bool {
        self.usage.is_used(claim)
    }

    /// Begins an attempt on the cached claim. `None` if the claim's other task runs; its end requeues
    /// this one.
    #[must_use]
    pub fn begin(&mut self, task: &Task, claim: &Claim, now: Instant) -> Option<Start> {
        if !self.turns.begin(&task.claim, task.clone()) {
            return None;
        }
        let running = Running {
            kind: task.kind,
            gone: false,
        };
        self.running.insert(task.claim.clone(), running);
        let annotated = self.annotated.of(&task.claim, claim.uid()).cloned();
        // Registered from the start: the attempt may miss whatever appears while it runs.
        self.waits.wait(task, RequeueTrigger::Driver);
        if let Some(claim) = claim.detail() {
            let volume = RequeueTrigger::Volume(claim.volume.clone());
            self.waits.wait(task, volume);
            for class in modify::targets(claim).filter(|_| task.kind == Kind::Modify) {
                self.waits.wait(task, RequeueTrigger::Class(class.clone()));
            }
        }
        let mut start = Start {
            annotated,
            ..Start::default()
        };
        let retention = self.retention;
        if let Some(entry) = self.entry_of(&task.claim, claim.uid()) {
            start.doubts.clone_from(&entry.doubts);
            if let Some(memory) = entry.tasks.get(&task.kind) {
                start.marks.clone_from(&memory.marks);
                start.slow = memory
                    .waits(retention, now)
                    .map(|(what, _)| what.to_owned());
            }
        }
        Some(start)
    }

    /// Takes in the end of an attempt.
    #[must_use]
    pub fn end(&mut self, task: &Task, attempt: &Attempt, end: &End, now: Instant) -> Ended {
        let running = self.running.remove(&task.claim);
        let woken = self.turns.end(&task.claim);
        self.waits.forget(task);
        if running.is_none_or(|running| running.gone) {
            let next = Next::Forget;
            return Ended { next, woken };
        }
        if attempt.is_unread() {
            // No event would ever remove state of a claim that the cache lacks.
            let next = match end {
                End::Failed(_) => Next::Backoff,
                End::Done | End::Again | End::Later | End::Waits(_) | End::Parked => Next::Forget,
            };
            return Ended { next, woken };
        }
        let trigger = match end {
            End::Waits(trigger) => Some(trigger.clone()),
            End::Failed(failure) => failure.trigger(),
            End::Done | End::Again | End::Later | End::Parked => None,
        };
        if let Some(trigger) = trigger {
            self.waits.wait(task, trigger);
        }
        let (retention, kind) = (self.retention, task.kind);
        let entry = self.claims.entry(task.claim.clone()).or_default();
        if entry.uid != *attempt.uid() {
            *entry = Entry {
                uid: attempt.uid().clone(),
                ..Entry::default()
            };
        }
        entry.doubts = attempt.doubts();
        let memory = entry.tasks.entry(kind).or_default();
        memory.marks.clone_from(&attempt.start.marks);
        if let Some(impossible) = attempt.called() {
            memory.slow = impossible.map(|what| Infeasible { what, since: now });
        }
        let waits = memory.waits(retention, now).map(|(_, rest)| rest);
        let nothing = Memory::default();
        if entry.doubts.is_empty() && entry.tasks.values().all(|memory| *memory == nothing) {
            self.claims.remove(&task.claim);
        }
        let next = match end {
            End::Done | End::Waits(_) | End::Parked => Next::Forget,
            End::Again => Next::Again,
            End::Later => waits.map_or(Next::Again, Next::After),
            End::Failed(failure) if failure.is_slow(kind) => Next::After(retention),
            End::Failed(_) => Next::Backoff,
        };
        Ended { next, woken }
    }

    /// The cached claim changed from `before` to `after`; `None` means that it does not exist. Returns
    /// the tasks to requeue.
    pub fn claim_changed(
        &mut self,
        key: &Text,
        before: Option<&Claim>,
        after: Option<&Claim>,
        origin: Origin,
    ) -> Vec<Task> {
        let another = |before: &Claim| after.is_none_or(|after| before.uid() != after.uid());
        if before.is_some_and(another) {
            self.claim_gone(key);
        }
        let Some(after) = after else {
            return Vec::new();
        };
        let writer = match origin {
            Origin::Watch => None,
            Origin::Own => self.running.get(key).map(|running| running.kind),
        };
        let mut tasks = Vec::new();
        for kind in Kind::ALL {
            if event::is_work(kind, before, after, writer == Some(kind)) {
                tasks.push(Task::new(kind, key));
            }
        }
        let capacity = |claim: &Claim| claim.capacity();
        let grew = before.is_none_or(|before| capacity(before) != capacity(after));
        let expand = Task::new(Kind::Expand, key);
        // An attempt that has just read the claim continues with it.
        let read = before.is_none() && writer == Some(Kind::Expand);
        if grew && !read && self.annotated.has(key) && !tasks.contains(&expand) {
            tasks.push(expand);
        }
        tasks
    }

    fn claim_gone(&mut self, key: &Text) {
        self.claims.remove(key);
        if let Some(running) = self.running.get_mut(key) {
            running.gone = true;
        }
        for kind in Kind::ALL {
            self.waits.forget(&Task::new(kind, key));
        }
    }

    /// The cached volume changed from `before` to `after`; `None` means that it does not exist.
    /// Returns the tasks to requeue.
    pub fn volume_changed(
        &mut self,
        name: &Text,
        before: Option<&Volume>,
        after: Option<&Volume>,
        driver: &Driver,
    ) -> Vec<Task> {
        let claim_of = |volume: &Volume| {
            let ours = volume.is_served_by(&driver.name);
            let claim = volume.annotated_claim().filter(|_| ours)?;
            Some((claim, volume.claim.as_ref()?.uid.clone()))
        };
        // The cache may also lack another claim of the same name.
        let (old, new) = (before.and_then(claim_of), after.and_then(claim_of));
        let mut tasks = Vec::new();
        if old != new {
            if let Some((claim, _)) = old {
                self.annotated.remove(&claim, name);
            }
            if let Some((claim, uid)) = new {
                tasks.push(Task::new(Kind::Expand, &claim));
                self.annotated.insert(claim, uid, name.clone());
            }
        }
        if after.is_some_and(|after| event::is_trigger(before, after)) {
            tasks.extend(self.triggered(&RequeueTrigger::Volume(name.clone())));
        }
        tasks
    }

    /// The cached class changed from `before` to `after`; `None` means that it does not exist. Returns
    /// the tasks to requeue.
    pub fn class_changed(
        &mut self,
        name: &Text,
        before: Option<&AttributesClass>,
        after: Option<&AttributesClass>,
    ) -> Vec<Task> {
        match after.is_none() || before == after {
            true => Vec::new(),
            false => self.triggered(&RequeueTrigger::Class(name.clone())),
        }
    }

    /// The cached pod changed from `before` to `after`; `None` means that it uses no claims. Returns
    /// the tasks to requeue: of claims that waited until no pod used them.
    pub fn pod_changed(&mut self, before: Option<&Pod>, after: Option<&Pod>) -> Vec<Task> {
        let freed = self.usage.changed(before, after);
        let waits = |claim: &Text| {
            let entry = self.claims.get(claim);
            let expand = entry.and_then(|entry| entry.tasks.get(&Kind::Expand));
            expand.is_some_and(|memory| memory.marks.in_use)
        };
        let freed = freed.into_iter().filter(waits);
        freed.map(|claim| Task::new(Kind::Expand, &claim)).collect()
    }

    /// The driver is reachable again: requeues the tasks that failed without it, before their back-off
    /// ends.
    pub fn driver_is_back(&mut self) -> Vec<Task> {
        self.triggered(&RequeueTrigger::Driver)
    }

    fn triggered(&self, trigger: &RequeueTrigger) -> Vec<Task> {
        self.waits.of(trigger).cloned().collect()
    }

    /// The state of the claim with this name; drops it if it belongs to another UID.
    fn entry_of(&mut self, key: &Text, uid: &Uid) -> Option<&Entry> {
        if self.claims.get(key).is_some_and(|entry| entry.uid != *uid) {
            self.claims.remove(key);
        }
        self.claims.get(key)
    }
}

impl Memory {
    /// The request that the driver recently called infeasible, and the remaining wait.
    fn waits(&self, retention: Duration, now: Instant) -> Option<(&str, Duration)> {
        let Infeasible { what, since } = self.slow.as_ref()?;
        let rest = retention.saturating_sub(now.saturating_duration_since(*since));
        (!rest.is_zero()).then_some((what, rest))
    }
}
