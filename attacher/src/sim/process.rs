//! One attacher process: caches fed by late events, queues, and attempts that advance step by step.
//!
//! The caches are the real ones, without their locks.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed"
)]

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::mutant::Mutant;
use super::server::{Event, Server, Versioned};
use super::watch::{Part, Watch, key};
use crate::model::{Attachment, CsiNode, Text, Volume};
use crate::plan::attachment::{Answer, Attempt, Refresh, Step};
use crate::plan::flight::Target;
use crate::plan::memory::{Item, Memory, Waiter};
use crate::plan::outcome::Failure;
use crate::plan::wake::{self, End, Next};
use crate::plan::{Driver, View, volume};

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

/// An unpublish call for what an attachment left.
pub(super) struct Unpublishing {
    pub(super) target: Target,
    pub(super) id: u64,
}

pub(super) struct Process {
    pub(super) driver: Driver,
    pub(super) mutant: Mutant,
    pub(super) attachments: Watch<Attachment>,
    pub(super) volumes: Watch<Volume>,
    pub(super) nodes: Watch<CsiNode>,
    /// Whether everything was listed once: nothing is worked on before.
    pub(super) synced: bool,
    pub(super) ready: BTreeSet<Item>,
    pub(super) later: BTreeSet<Item>,
    pub(super) ready_volumes: BTreeSet<Text>,
    pub(super) later_volumes: BTreeSet<Text>,
    pub(super) running: Vec<Running>,
    pub(super) releasing: Vec<Releasing>,
    pub(super) unpublishing: Vec<Unpublishing>,
    pub(super) memory: Memory,
}

impl Process {
    /// A process that has just started: nothing is listed yet.
    pub(super) fn start(driver: Driver, mutant: Mutant) -> Self {
        let mut process = Self {
            driver,
            mutant,
            attachments: Watch::new(),
            volumes: Watch::new(),
            nodes: Watch::new(),
            synced: mutant == Mutant::StartsEarly,
            ready: BTreeSet::new(),
            later: BTreeSet::new(),
            ready_volumes: BTreeSet::new(),
            later_volumes: BTreeSet::new(),
            running: Vec::new(),
            releasing: Vec::new(),
            unpublishing: Vec::new(),
            memory: Memory::default(),
        };
        process.attachments.begin_list();
        process.volumes.begin_list();
        process.nodes.begin_list();
        process
    }

    /// A part of the list of `kind` arrives, if there is one on its way. Says whether the server
    /// reads the attachments now.
    pub(super) fn go_on_listing(&mut self, kind: usize, server: &Server) -> bool {
        let log = &server.log;
        let mut reads = false;
        match kind {
            0 => match self.attachments.go_on_listing(&server.attachments, log) {
                Some(Part::Arrived(changes)) => {
                    changes
                        .into_iter()
                        .for_each(|change| self.attachment_changed(change));
                }
                Some(Part::Read) => reads = true,
                None => {}
            },
            1 => {
                if let Some(Part::Arrived(changes)) =
                    self.volumes.go_on_listing(&server.volumes, log)
                {
                    changes
                        .iter()
                        .for_each(|change| self.volume_changed(change));
                }
            }
            _ => {
                if let Some(Part::Arrived(changes)) = self.nodes.go_on_listing(&server.nodes, log) {
                    changes.iter().for_each(|change| self.node_changed(change));
                }
            }
        }
        self.synced |= !self.is_listing();
        reads
    }

    pub(super) fn is_listing(&self) -> bool {
        [0, 1, 2].into_iter().any(|kind| self.lists(kind))
    }

    pub(super) fn lists(&self, kind: usize) -> bool {
        match kind {
            0 => self.attachments.is_listing(),
            1 => self.volumes.is_listing(),
            _ => self.nodes.is_listing(),
        }
    }

    /// The watch of `kind` broke: a list begins.
    pub(super) fn relist(&mut self, kind: usize) {
        match kind {
            0 => self.attachments.begin_list(),
            1 => self.volumes.begin_list(),
            _ => self.nodes.begin_list(),
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

    /// Begins an attempt on a queued attachment; the server is asked only in doubt.
    pub(super) fn begin(&mut self, name: &Text, server: &Server) {
        self.ready.remove(&Item::Attachment(name.clone()));
        let start = self.memory.begin(name);
        if start.doubtful {
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
            if !server.attachments.contains_key(name) {
                // The end of the object is on its way as an event.
                let ended = self.memory.end(name);
                return self.ended(ended);
            }
        }
        let Some(current) = self.attachments.get(name).cloned() else {
            let ended = self.memory.end(name);
            return self.ended(ended);
        };
        self.memory.works_on(name, current.volume.as_ref());
        self.running.push(Running {
            name: name.clone(),
            attempt: Attempt::new(&current, start.forced),
            current,
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
                self.finish(index, &End::Again);
                return None;
            }
            Refresh::Gone => {
                self.finish(index, &End::Done);
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
            node: self.nodes.get(&attachment.node).map(|node| &**node),
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
                    self.memory.works_on(&name, object.volume.as_ref());
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
    pub(super) fn finish(&mut self, index: usize, end: &End) {
        let running = self.running.remove(index);
        if let Some(target) = &running.target {
            self.land(target);
        }
        let (next, ended) = wake::ended(&mut self.memory, end, &running.attempt, &running.current);
        let item = Item::Attachment(running.name);
        match next {
            Next::Retry if self.mutant == Mutant::ForgetsRetries => {}
            Next::Retry if self.mutant == Mutant::Spins => {
                self.ready.insert(item);
            }
            Next::Retry => {
                self.later.insert(item);
            }
            Next::Again => {
                self.ready.insert(item);
            }
            Next::Change => {
                self.later.remove(&item);
            }
        }
        self.ended(ended);
    }

    /// A call ended: who waited for that goes on.
    pub(super) fn land(&mut self, target: &Target) {
        let waiting = self.memory.calls.end(target);
        self.wake_all(waiting);
    }

    /// A patch of `volume` ended: who waited for it may go on.
    pub(super) fn patched(&mut self, volume: &Text) {
        for waiter in self.memory.patches.end(volume) {
            match waiter {
                Waiter::Attachment(name) => self.wake_all([Item::Attachment(name)]),
                Waiter::Volume(name) => {
                    self.ready_volumes.insert(name);
                }
            }
        }
    }

    /// The patch that releases volume `name`, if it is due.
    pub(super) fn release(&self, name: &Text) -> Option<Value> {
        let volume = self.volumes.get(name)?;
        let referenced = match self.mutant {
            Mutant::ForgetsAttempts => {
                let named = |held: &Attachment| held.volume.as_ref() == Some(name);
                self.attachments.slots.iter().any(|(_, held)| named(held))
            }
            _ => self.memory.uses(name),
        };
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
