//! One attacher process: the shipped controller, caches fed by late events, sets as queues, and
//! attempts that advance step by step.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a model that meets anything else has failed"
)]

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use sidecar::controller::reactor::{Reactor as _, Verdict};
use sidecar::kube::cache::Source;
use sidecar::kube::cache::store;
use sidecar_testkit::sim::attempts::{self, Attempts, Simulated};
use sidecar_testkit::sim::watch::{Part, Versioned, Watch, key as key_of};

use super::mutant::{Mutant, Observed, Told};
use super::server::{Event, Server};
use crate::model::{Attachment, CsiNode, Text, Volume};
use crate::plan::in_flight::Key;
use crate::plan::outcome::RequeueTrigger;
use crate::plan::reactor::Change;
use crate::plan::request::{Object, Reply, Request};
use crate::plan::{self, Attacher, Driver};

/// The work an event makes due.
pub(super) type Due = sidecar::controller::reactor::DueOf<Attacher>;

pub(super) type Running = attempts::Running<Process>;
pub(super) type State = attempts::State<Process>;

impl Simulated for Process {
    type Reactor = Attacher;
    type Object = Written;
    type Waiting = Infallible;
    type Note = ();
}

/// The object that a request returned.
pub(super) enum Written {
    Attachment(Versioned<Attachment>),
    Volume(Versioned<Volume>),
}

/// The caches and the driver, as decisions read them.
pub(super) struct Informers {
    pub(super) driver: Arc<Driver>,
    pub(super) attachments: Watch<Attachment>,
    pub(super) volumes: Watch<Volume>,
    pub(super) nodes: Watch<CsiNode>,
    pub(super) mutant: Mutant,
    /// Whether all attachments are currently hidden.
    pub(super) blind: bool,
}

impl plan::Informers for Informers {
    fn driver(&self) -> Arc<Driver> {
        Arc::clone(&self.driver)
    }

    fn attachment(&self, name: &str) -> Option<Arc<Attachment>> {
        let attachment = self.attachments.slots.get(name)?;
        Some(self.mutant.sees(attachment))
    }

    fn attachments(&self) -> Vec<Arc<Attachment>> {
        let all = self.attachments.slots.iter().filter(|_| !self.blind);
        all.map(|(_, attachment)| Arc::clone(attachment)).collect()
    }

    fn volume(&self, name: &str) -> Option<Arc<Volume>> {
        let volume = self.volumes.slots.get(name)?;
        Some(self.mutant.sees_volume(volume))
    }

    fn node(&self, name: &str) -> Option<Arc<CsiNode>> {
        self.nodes.slots.get(name).cloned()
    }
}

pub(super) struct Process {
    pub(super) attempts: Attempts<Self>,
    pub(super) informers: Informers,
    pub(super) mutant: Mutant,
    /// Whether every list was completed once; no attempt starts earlier.
    pub(super) synced: bool,
    /// Triggers that a mutant withholds until the attempt's last request was answered.
    pub(super) kept: HashMap<Key, Vec<RequeueTrigger>>,
}

impl Process {
    /// A process that has just started and has listed nothing yet.
    pub(super) fn start(driver: Driver, mutant: Mutant) -> Self {
        let mut process = Self {
            attempts: Attempts::new(Attacher::default(), "1970-01-01T00:00:00Z"),
            informers: Informers {
                attachments: Watch::new(),
                volumes: {
                    let (name, finalizer) = (driver.name.clone(), driver.finalizer.clone());
                    Watch::only(move |volume: &Volume| {
                        volume.spec.source.is_of(&name) || volume.has_finalizer(&finalizer)
                    })
                },
                driver: Arc::new(driver),
                nodes: Watch::new(),
                mutant,
                blind: false,
            },
            mutant,
            synced: mutant == Mutant::StartsEarly,
            kept: HashMap::new(),
        };
        for kind in 0..3 {
            process.relist(kind);
        }
        process
    }

    /// Delivers a part of the list of `kind`, if one is in progress. Returns whether the server
    /// reads the attachments now.
    pub(super) fn go_on_listing(&mut self, kind: usize, server: &Server) -> bool {
        let (log, informers) = (&server.log, &mut self.informers);
        let mut reads = false;
        match kind {
            0 => match { &mut informers.attachments }.go_on_listing(&server.attachments, log) {
                Some(Part::Arrived(changes)) => {
                    changes
                        .iter()
                        .for_each(|change| self.attachment_changed(change));
                }
                Some(Part::Read) => reads = true,
                Some(Part::Passed(_)) | None => {}
            },
            1 => match informers.volumes.go_on_listing(&server.volumes, log) {
                Some(Part::Arrived(changes)) => {
                    changes
                        .iter()
                        .for_each(|change| self.volume_changed(change));
                }
                Some(Part::Passed(name)) => self.volume_passed(name),
                Some(Part::Read) | None => {}
            },
            _ => {
                if let Some(Part::Arrived(changes)) =
                    informers.nodes.go_on_listing(&server.nodes, log)
                {
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
            0 => self.informers.attachments.is_listing(),
            1 => self.informers.volumes.is_listing(),
            _ => self.informers.nodes.is_listing(),
        }
    }

    /// The watch of `kind` broke: begins a new list.
    pub(super) fn relist(&mut self, kind: usize) {
        match kind {
            0 => self.informers.attachments.ask_for_list(),
            1 => self.informers.volumes.ask_for_list(),
            _ => self.informers.nodes.ask_for_list(),
        }
    }

    pub(super) fn cursor(&mut self, kind: usize) -> &mut usize {
        match kind {
            0 => &mut self.informers.attachments.cursor,
            1 => &mut self.informers.volumes.cursor,
            _ => &mut self.informers.nodes.cursor,
        }
    }

    /// Handles one event of the server's log.
    pub(super) fn observe(&mut self, (version, event): &Versioned<Event>) {
        let informers = &mut self.informers;
        match event.clone() {
            Event::Attachment(name, object) => {
                if self.mutant == Mutant::BelievesOldEvents {
                    informers.attachments.slots.begin_list();
                }
                if let Some(change) = informers.attachments.observe(&name, object, *version) {
                    self.attachment_changed(&change);
                }
            }
            Event::Volume(name, object) => {
                let there = object.is_some();
                match informers.volumes.observe(&name, object, *version) {
                    Some(change) => self.volume_changed(&change),
                    None if there && informers.volumes.slots.is_untold(&name) => {
                        self.volume_passed(name);
                    }
                    None => {}
                }
            }
            Event::Node(name, object) => {
                if let Some(change) = informers.nodes.observe(&name, object, *version) {
                    self.node_changed(&change);
                }
            }
        }
    }

    fn attachment_changed(&mut self, change: &store::Change<Attachment>) {
        self.changed(match change {
            store::Change::Upserted {
                old, new, source, ..
            } => Change::Attachment {
                old: old.as_deref(),
                new,
                own: *source == Source::Own,
            },
            store::Change::Deleted { old, .. } => Change::AttachmentGone(old),
        });
    }

    fn volume_changed(&mut self, change: &store::Change<Volume>) {
        if let store::Change::Upserted { key, old, .. } = change {
            self.changed(Change::Volume {
                name: Text::from(key.as_str()),
                new: old.is_none(),
            });
        }
    }

    /// The volume exists, but the cache does not keep it.
    fn volume_passed(&mut self, name: Text) {
        if self.mutant == Mutant::MissesUnkeptVolumes {
            return;
        }
        self.changed(Change::Volume { name, new: true });
    }

    fn node_changed(&mut self, change: &store::Change<CsiNode>) {
        if let store::Change::Upserted { key, new, .. } = change {
            self.changed(Change::Node(Text::from(key.as_str()), new));
        }
    }

    fn changed(&mut self, change: Change<'_>) {
        let event = match &change {
            Change::AttachmentGone(old) => Observed::Gone(old.name.clone()),
            Change::Volume { .. } | Change::VolumeResync(_) => Observed::Volume,
            Change::Node(..) | Change::DriverBack => Observed::Node,
            Change::Attachment { .. } | Change::AttachmentResync(_) => Observed::Attachment,
        };
        let attacher = &mut self.attempts.reactor;
        let due = attacher.observe(change, &self.informers);
        let due = self.mutant.observes(event, due, attacher);
        self.attempts.take(due);
    }

    /// Begins an attempt on a queued key.
    pub(super) fn begin(&mut self, key: &Key) {
        self.attempts.begin(key, &self.informers);
    }

    /// The next step of attempt `index`; `None` if the attempt ended.
    pub(super) fn decide(&mut self, index: usize) -> Option<Request> {
        let now = self.attempts.now;
        let attempts = &mut self.attempts;
        let running = &mut attempts.running[index];
        let request = self.mutant.deciding(
            &running.key,
            &mut attempts.reactor,
            &mut self.informers,
            |attacher, informers| attacher.decide(&mut running.attempt, informers, now),
        );
        if let Some(request) = request {
            let key = running.key.clone();
            let request = match attempts.admit(index, request, &self.informers) {
                Ok(request) => request,
                Err(_) => return self.decide(index),
            };
            return Some(self.mutant.decides(request, &key, self));
        }
        let (key, verdict, due) = attempts.end(index, &self.informers);
        let due = self.mutant.ends(due, &key, &mut attempts.reactor);
        match &verdict {
            Verdict::Retry { .. } if self.mutant == Mutant::ForgetsRetries => {}
            Verdict::Retry { .. } if self.mutant == Mutant::Spins => {
                attempts.ready.insert(key);
            }
            Verdict::Done | Verdict::Retry { .. } | Verdict::After { .. } => {
                attempts.settle(key, &verdict);
            }
        }
        attempts.take(due);
        None
    }

    /// Hands the reply to the last request of attempt `index` to the controller.
    pub(super) fn answer(&mut self, index: usize, reply: Reply) {
        let reply = self.mutant.hears(reply);
        let told = Told::of(&reply);
        let due = { &mut self.attempts }.answer(index, reply, &self.informers);
        let key = self.attempts.running[index].key.clone();
        let due = self.mutant.answers(due, &told, &key, self);
        self.attempts.take(due);
    }

    /// Announces to the caches that a request is about to be sent.
    pub(super) fn announce(&mut self, request: &Request) {
        let object = match request {
            Request::Get(object) => object,
            Request::Write(write) => &write.object,
            Request::Secret(_) | Request::Call(_) | Request::Event(_) => return,
        };
        match object {
            Object::Attachment(name) => self.informers.attachments.slots.begin_write(&key_of(name)),
            Object::Volume(name) => self.informers.volumes.slots.begin_write(&key_of(name)),
        }
    }

    /// Stores the reply's object in the caches, as the shipped executor does.
    pub(super) fn absorb(&mut self, reply: Reply, written: Option<Written>) -> Reply {
        let unheard = self.mutant == Mutant::TakesUnknownForMissing;
        let forgets = self.mutant == Mutant::ForgetsOwnWrites;
        let object = match &reply {
            Reply::Get(object, _) => object,
            Reply::Write(write, _) => &write.object,
            Reply::Secret(..) | Reply::Call(..) | Reply::Event(_) => return reply,
        };
        let name = match object {
            Object::Attachment(name) => name,
            Object::Volume(name) => {
                let slots = &mut self.informers.volumes.slots;
                let unheard = unheard && matches!(reply, Reply::Get(..));
                let change = match written {
                    Some(Written::Volume((version, object))) if !unheard => {
                        slots.write_answered(&key_of(name), object, version)
                    }
                    _ => slots.write_failed(&key_of(name)),
                };
                if let Some(change) = change {
                    self.volume_changed(&change);
                }
                return reply;
            }
        };
        let (slots, key) = (&mut self.informers.attachments.slots, key_of(name));
        let (change, found) = match written {
            Some(Written::Attachment((version, object))) => {
                let change = if forgets {
                    slots.write_failed(&key)
                } else {
                    slots.write_answered(&key, object.clone(), version)
                };
                (change, Some(self.mutant.sees(&Arc::new(object))))
            }
            Some(Written::Volume(_)) | None => (slots.write_failed(&key), None),
        };
        if let Some(change) = change {
            self.attachment_changed(&change);
        }
        match reply {
            Reply::Get(object, Ok(_)) => Reply::Get(object, Ok(found)),
            Reply::Write(write, Ok(_)) => Reply::Write(write, Ok(found)),
            reply => reply,
        }
    }
}
