//! One attacher process: caches fed by late events, queues, and attempts that advance step by step.
//!
//! The caches are the real ones, without their locks.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use sidecar::kube::cache::Source;
use sidecar::kube::cache::slots::{Change, Slots};
use sidecar::kube::key::Key;

use super::mutant::Mutant;
use super::server::{Event, Server, Versioned};
use crate::model::{Attachment, CsiNode, Text, Volume};
use crate::plan::attachment::{Answer, Attempt, NodeId, Refresh, Step, View};
use crate::plan::flight::{Flights, Target};
use crate::plan::outcome::{Cure, Direction, Failure};
use crate::plan::{Driver, event, volume};

/// An attempt under way.
pub(super) struct Running {
    pub(super) name: Text,
    pub(super) attempt: Attempt,
    pub(super) current: Arc<Attachment>,
    pub(super) target: Option<Target>,
    pub(super) state: State,
}

pub(super) enum State {
    Deciding,
    /// Sent to the API server, not yet applied.
    Sent(Step),
    /// The driver works on it.
    Calling(Step, u64),
    /// The answer is on its way; with the object if a patch was applied and heard of.
    Answered(Step, Answer, Option<Written>),
    /// The failure's record is sent, not yet applied.
    Recording(Failure, Value),
}

/// What a patch returned.
pub(super) enum Written {
    Attachment(Versioned<Attachment>),
    Volume(Versioned<Volume>),
}

/// Work on a volume's finalizer; the patch is sent, not yet applied.
pub(super) struct Releasing {
    pub(super) name: Text,
    pub(super) patch: Value,
}

/// One kind of object as this process sees it.
pub(super) struct Watch<T> {
    pub(super) slots: Slots<T>,
    /// How far into the server's log this watch has come.
    pub(super) cursor: usize,
}

impl<T: Clone> Watch<T> {
    fn new() -> Self {
        Self {
            slots: Slots::new(),
            cursor: 0,
        }
    }

    pub(super) fn get(&self, name: &Text) -> Option<&Arc<T>> {
        self.slots.get(name)
    }

    /// Lists everything, in one consistent read.
    fn list(
        &mut self,
        objects: &BTreeMap<Text, Versioned<T>>,
        log: &[Versioned<Event>],
    ) -> Vec<Change<T>> {
        self.cursor = log.len();
        let now = log.last().map_or(0, |(version, _)| *version);
        self.slots.begin_list();
        let mut changes = Vec::new();
        for (name, (version, object)) in objects {
            changes.extend(self.slots.upsert(key(name), object.clone(), *version));
        }
        changes.extend(self.slots.finish_list(now));
        changes
    }

    fn observe(&mut self, name: &Text, object: Option<T>, version: u64) -> Option<Change<T>> {
        match object {
            Some(object) => self.slots.upsert(key(name), object, version),
            None => self.slots.delete(key(name), version),
        }
    }
}

pub(super) fn key(name: &Text) -> Key {
    Key::new(None, name).unwrap()
}

pub(super) struct Process {
    pub(super) driver: Driver,
    pub(super) mutant: Mutant,
    pub(super) attachments: Watch<Attachment>,
    pub(super) volumes: Watch<Volume>,
    pub(super) nodes: Watch<CsiNode>,
    pub(super) ready: BTreeSet<Text>,
    pub(super) later: BTreeSet<Text>,
    pub(super) ready_volumes: BTreeSet<Text>,
    pub(super) later_volumes: BTreeSet<Text>,
    pub(super) forced: BTreeSet<Text>,
    pub(super) running: Vec<Running>,
    pub(super) releasing: Vec<Releasing>,
    pub(super) flights: Flights<Text>,
    /// Volumes with a patch of theirs under way.
    pub(super) guarded: BTreeSet<Text>,
    pub(super) cures: Vec<(Cure, Text)>,
    /// Attachments that must be read before anything is done, and the volumes they named.
    pub(super) doubtful: BTreeMap<Text, Option<Text>>,
    /// Attachments worked on since the driver's list was asked for.
    pub(super) touched: BTreeSet<Text>,
}

impl Process {
    /// A process that has just listed everything.
    pub(super) fn start(server: &Server, driver: Driver, mutant: Mutant) -> Self {
        let mut process = Self {
            driver,
            mutant,
            attachments: Watch::new(),
            volumes: Watch::new(),
            nodes: Watch::new(),
            ready: BTreeSet::new(),
            later: BTreeSet::new(),
            ready_volumes: BTreeSet::new(),
            later_volumes: BTreeSet::new(),
            forced: BTreeSet::new(),
            running: Vec::new(),
            releasing: Vec::new(),
            flights: Flights::default(),
            guarded: BTreeSet::new(),
            cures: Vec::new(),
            doubtful: BTreeMap::new(),
            touched: BTreeSet::new(),
        };
        process.list(server);
        process
    }

    /// Lists everything anew, as at the start and after a watch broke.
    pub(super) fn list(&mut self, server: &Server) {
        let log = &server.log;
        for change in self.attachments.list(&server.attachments, log) {
            self.attachment_changed(change);
        }
        for change in self.volumes.list(&server.volumes, log) {
            self.volume_changed(&change);
        }
        for change in self.nodes.list(&server.nodes, log) {
            self.node_changed(&change);
        }
    }

    /// Takes in one event of the server's log.
    pub(super) fn observe(&mut self, (version, event): &Versioned<Event>) {
        match event.clone() {
            Event::Attachment(name, object) => {
                if self.mutant == Mutant::BelievesOldEvents {
                    self.attachments.slots.begin_list();
                }
                if let Some(change) = self.attachments.observe(&name, object, *version) {
                    self.attachment_changed(change);
                }
            }
            Event::Volume(name, object) => {
                if let Some(change) = self.volumes.observe(&name, object, *version) {
                    self.volume_changed(&change);
                }
            }
            Event::Node(name, object) => {
                if let Some(change) = self.nodes.observe(&name, object, *version) {
                    self.node_changed(&change);
                }
            }
        }
    }

    pub(super) fn attachment_changed(&mut self, change: Change<Attachment>) {
        match change {
            Change::Upserted {
                old, new, source, ..
            } => {
                let own = source == Source::Own;
                if !own && event::is_work(old.as_deref(), &new, &self.driver) {
                    self.ready.insert(new.name.clone());
                }
            }
            Change::Deleted { old, .. } => self.ready_volumes.extend(old.volume.clone()),
        }
    }

    pub(super) fn volume_changed(&mut self, change: &Change<Volume>) {
        if let Change::Upserted { key, .. } = change {
            let name = Text::from(key.as_str());
            self.look_at_volume(&name);
            self.cured(&Cure::Volume(name));
        }
    }

    fn node_changed(&mut self, change: &Change<CsiNode>) {
        if let Change::Upserted { key, .. } = change {
            self.cured(&Cure::CsiNode(key.as_str().into()));
        }
    }

    fn look_at_volume(&mut self, name: &Text) {
        let volume = self.volumes.get(name);
        if volume.is_some_and(|volume| volume::may_release(volume, &self.driver)) {
            self.ready_volumes.insert(name.clone());
        }
    }

    fn cured(&mut self, cure: &Cure) {
        for (_, name) in self.cures.extract_if(.., |(known, _)| known == cure) {
            self.ready.insert(name);
        }
    }

    /// Begins an attempt on a queued attachment; the server is asked only in doubt.
    pub(super) fn begin(&mut self, name: &Text, server: &Server) {
        self.ready.remove(name);
        self.touched.insert(name.clone());
        if let Some(volume) = self.doubtful.remove(name) {
            self.attachments.slots.begin_write(&key(name));
            let slots = &mut self.attachments.slots;
            let change = match server.attachments.get(name) {
                Some((version, object)) => {
                    slots.write_answered(&key(name), object.clone(), *version)
                }
                None => slots.write_failed(&key(name)),
            };
            if let Some(change) = change {
                self.attachment_changed(change);
            }
            self.ready_volumes.extend(volume);
            if !server.attachments.contains_key(name) {
                // The end of the object is on its way as an event.
                return;
            }
        }
        let forced = self.forced.remove(name);
        let Some(current) = self.attachments.get(name) else {
            return;
        };
        if *current.attacher != *self.driver.name {
            return;
        }
        self.running.push(Running {
            name: name.clone(),
            attempt: Attempt::new(current, forced),
            current: current.clone(),
            target: None,
            state: State::Deciding,
        });
    }

    /// The next step of attempt `index`; `None` if the attempt is over.
    pub(super) fn decide(&mut self, index: usize) -> Option<Step> {
        let running = &mut self.running[index];
        let cached = self.attachments.get(&running.name);
        match running
            .attempt
            .refresh(&running.current, cached.map(|cached| &**cached))
        {
            Refresh::Keep => {}
            Refresh::Take => running.current = cached.unwrap().clone(),
            Refresh::Replaced => {
                self.finish(index, End::Again);
                return None;
            }
            Refresh::Gone => {
                self.finish(index, End::Done);
                return None;
            }
        }
        let attachment = self.mutant.sees(&running.current);
        let name = attachment.volume.as_ref();
        let volume = name.and_then(|name| self.volumes.get(name));
        let volume = volume.map(|volume| self.mutant.sees_volume(volume));
        let view = View {
            driver: &self.driver,
            attachment: &attachment,
            volume: volume.as_deref(),
            node: NodeId::of(self.nodes.get(&attachment.node).map(|node| &**node)),
        };
        Some(self.mutant.decides(running.attempt.decide(&view), &view))
    }

    /// An own write is about to be sent.
    pub(super) fn announce(&mut self, name: &Text, step: &Step) {
        match step {
            Step::Protect(volume, _) => self.volumes.slots.begin_write(&key(volume)),
            _ => self.attachments.slots.begin_write(&key(name)),
        }
    }

    /// Takes the result of an own write of attempt `index` into the caches; `None` is a failure.
    pub(super) fn absorb(&mut self, index: usize, step: Option<&Step>, written: Option<Written>) {
        let name = self.running[index].name.clone();
        if let Some(Step::Protect(volume, _)) = step {
            let slots = &mut self.volumes.slots;
            let change = match written {
                Some(Written::Volume((version, object))) => {
                    slots.write_answered(&key(volume), object, version)
                }
                _ => slots.write_failed(&key(volume)),
            };
            if let Some(change) = change {
                self.volume_changed(&change);
            }
            return;
        }
        let slots = &mut self.attachments.slots;
        let change = match written {
            Some(Written::Attachment((version, object))) => {
                let current = &mut self.running[index].current;
                if object.version >= current.version {
                    *current = Arc::new(object.clone());
                }
                match self.mutant == Mutant::ForgetsOwnWrites {
                    true => slots.write_failed(&key(&name)),
                    false => slots.write_answered(&key(&name), object, version),
                }
            }
            _ => slots.write_failed(&key(&name)),
        };
        if let Some(change) = change {
            self.attachment_changed(change);
        }
    }

    /// Ends attempt `index`.
    pub(super) fn finish(&mut self, index: usize, end: End) {
        let running = self.running.remove(index);
        if let Some(target) = &running.target {
            self.ready.extend(self.flights.end(target));
        }
        // While it ran, its volume was in use.
        self.ready_volumes.extend(running.current.volume.clone());
        let turned = Direction::of(&running.current) != running.attempt.direction();
        match end {
            End::Again => {
                self.ready.insert(running.name);
            }
            End::Done | End::Waits => {
                if turned {
                    self.ready.insert(running.name);
                }
            }
            End::Failed(failure) => {
                if failure.leaves_doubt() {
                    let volume = running.current.volume.clone();
                    self.doubtful.insert(running.name.clone(), volume);
                }
                if let Some(cure) = failure.cure() {
                    self.cures.push((cure, running.name.clone()));
                }
                if self.mutant == Mutant::ForgetsRetries {
                    return;
                }
                match turned {
                    true => self.ready.insert(running.name),
                    false => self.later.insert(running.name),
                };
            }
        }
    }

    /// The patch that releases volume `name`, if it is due.
    pub(super) fn release(&self, name: &Text) -> Option<Value> {
        let volume = self.volumes.get(name)?;
        let named = |held: &Attachment| held.volume.as_ref() == Some(name);
        let referenced = self.attachments.slots.iter().any(|(_, held)| named(held))
            || (self.mutant != Mutant::ForgetsAttempts
                && self.running.iter().any(|running| named(&running.current)))
            || self
                .doubtful
                .values()
                .any(|held| held.as_ref() == Some(name));
        let referenced = referenced && self.mutant != Mutant::ReleasesVolumesInUse;
        volume::release(volume, referenced, &self.driver)
    }

    /// The result of a release; `None` is a failure.
    pub(super) fn absorb_release(&mut self, name: &Text, written: Option<Versioned<Volume>>) {
        let slots = &mut self.volumes.slots;
        let change = match written {
            Some((version, object)) => slots.write_answered(&key(name), object, version),
            None => slots.write_failed(&key(name)),
        };
        if let Some(change) = change {
            self.volume_changed(&change);
        }
    }
}

/// How an attempt ends.
pub(super) enum End {
    Done,
    Again,
    /// Another call for the volume and node is in flight; its end brings this one back.
    Waits,
    Failed(Failure),
}
