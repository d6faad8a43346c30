//! One attacher process: the controller that ships, caches fed by late events, queues that are sets,
//! and attempts that advance step by step.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use sidecar::controller::reactor::{Now, Reactor, Verdict};
use sidecar::kube::cache::Source;
use sidecar::kube::cache::store;
use sidecar_testkit::sim::watch::{Part, Versioned, Watch};

use super::mutant::{Mutant, Observed, Told};
use super::server::{Event, Server};
use crate::model::{Attachment, CsiNode, Text, Volume};
use crate::plan::in_flight::Key;
use crate::plan::outcome::RequeueTrigger;
use crate::plan::reactor::{Answered, Attempt, Change, Step};
use crate::plan::{self, Attacher, Driver};

/// What becomes due.
pub(super) type Due = sidecar::controller::reactor::DueOf<Attacher>;

/// An attempt under way.
pub(super) struct Running {
    pub(super) key: Key,
    pub(super) attempt: Attempt,
    pub(super) state: State,
}

pub(super) enum State {
    Deciding,
    /// Sent to the API server, not yet applied.
    Sent(Step),
    /// The driver works on it.
    Calling(Step, u64),
    /// The answer is on its way; with the object if a patch was applied and heard of.
    Answered(Step, Box<Answered>, Box<Option<Written>>),
}

/// What a request returned.
pub(super) enum Written {
    Attachment(Versioned<Attachment>),
    Volume(Versioned<Volume>),
}

/// What the controller looks at.
pub(super) struct Informers {
    pub(super) driver: Arc<Driver>,
    pub(super) attachments: Watch<Attachment>,
    pub(super) volumes: Watch<Volume>,
    pub(super) nodes: Watch<CsiNode>,
    pub(super) mutant: Mutant,
    /// Whether all attachments are hidden at this moment.
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
    pub(super) attacher: Attacher,
    pub(super) informers: Informers,
    pub(super) mutant: Mutant,
    /// Whether everything was listed once: nothing is worked on before.
    pub(super) synced: bool,
    pub(super) ready: BTreeSet<Key>,
    pub(super) later: BTreeSet<Key>,
    pub(super) running: Vec<Running>,
    now: Now,
    /// What a mutant keeps from the controller's books until an attempt's last request is answered.
    pub(super) kept: HashMap<Key, HashSet<RequeueTrigger>>,
}

impl Process {
    /// A process that has just started: nothing is listed yet.
    pub(super) fn start(driver: Driver, mutant: Mutant) -> Self {
        let mut process = Self {
            attacher: Attacher::default(),
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
            ready: BTreeSet::new(),
            later: BTreeSet::new(),
            running: Vec::new(),
            now: Now {
                instant: Instant::now(),
                timestamp: Timestamp::UNIX_EPOCH,
            },
            kept: HashMap::new(),
        };
        for kind in 0..3 {
            process.relist(kind);
        }
        process
    }

    /// A part of the list of `kind` arrives, if there is one on its way. Says whether the server
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

    /// The watch of `kind` broke: a list begins.
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

    /// Takes in one event of the server's log.
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

    pub(super) fn attachment_changed(&mut self, change: &store::Change<Attachment>) {
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

    pub(super) fn volume_changed(&mut self, change: &store::Change<Volume>) {
        if let store::Change::Upserted { key, old, .. } = change {
            self.changed(Change::Volume {
                name: Text::from(key.as_str()),
                new: old.is_none(),
            });
        }
    }

    /// The volume is there, and nobody is told more.
    fn volume_passed(&mut self, name: Text) {
        if self.mutant == Mutant::MissesUnkeptVolumes {
            return;
        }
        self.changed(Change::Volume { name, new: true });
    }

    pub(super) fn node_changed(&mut self, change: &store::Change<CsiNode>) {
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
        let due = self.attacher.observe(change, &self.informers);
        let due = self.mutant.observes(event, due, &mut self.attacher);
        self.take(due);
    }

    /// Puts into the queue what is due.
    pub(super) fn take(&mut self, due: Due) {
        self.ready
            .extend(due.wakes.into_iter().map(|wake| wake.key));
    }

    /// An attempt on a queued key begins.
    pub(super) fn begin(&mut self, key: &Key) {
        self.ready.remove(key);
        // What is worked on is not waited with.
        self.later.remove(key);
        self.running.push(Running {
            key: key.clone(),
            attempt: self.attacher.begin(key, &self.informers, self.now),
            state: State::Deciding,
        });
    }

    /// The next step of attempt `index`; `None` if the attempt is over, and ended.
    pub(super) fn decide(&mut self, index: usize) -> Option<Step> {
        let (running, now) = (&mut self.running[index], self.now);
        let step = self.mutant.deciding(
            &running.key,
            &mut self.attacher,
            &mut self.informers,
            |attacher, informers| attacher.decide(&mut running.attempt, informers, now),
        );
        if let Some(step) = step {
            let key = running.key.clone();
            return Some(self.mutant.decides(step, &key, self));
        }
        let Running { key, attempt, .. } = self.running.remove(index);
        let (verdict, due) = self.attacher.end(attempt, &self.informers, self.now);
        let due = self.mutant.ends(due, &key, &mut self.attacher);
        match verdict {
            Verdict::Retry { .. } if self.mutant == Mutant::ForgetsRetries => {}
            Verdict::Retry { .. } if self.mutant == Mutant::Spins => {
                self.ready.insert(key);
            }
            Verdict::Retry { .. } | Verdict::After { .. } => {
                self.later.insert(key);
            }
            Verdict::Done => {}
        }
        self.take(due);
        None
    }

    /// What came of the last step of attempt `index` reaches the controller.
    pub(super) fn answer(&mut self, index: usize, step: Step, answered: Answered) {
        let answered = self.mutant.hears(&step, answered);
        let told = Told::of(&step);
        let running = &mut self.running[index];
        let attempt = &mut running.attempt;
        let due = { &mut self.attacher }.answered(attempt, step, answered, &self.informers);
        let key = running.key.clone();
        let due = self.mutant.answers(due, &told, &key, self);
        self.take(due);
    }
}
