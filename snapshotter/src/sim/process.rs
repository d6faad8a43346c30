//! One snapshotter process: the controller that ships, caches fed by late events, a set as its
//! queue, and attempts that advance step by step.
//!
//! The caches are the real ones, without their locks.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use sidecar::controller::reactor::{Due, Reactor as _, Verdict};
use sidecar::kube::cache::{Source, store};
use sidecar_testkit::sim::attempts::{self, Attempts, Simulated};
use sidecar_testkit::sim::watch::{Watch, key};

use super::mutant::Mutant;
use crate::model::{Class, Content, Kind, Text};
use crate::plan::reactor::{Change, Notice};
use crate::plan::request::{Reply, Request};
use crate::plan::{Driver, Informers, Settings, Snapshotter};
use crate::testing::{Event, NOW, Server, Versioned, driver};

/// The controller's informers: caches, as a mutant sees them.
pub(super) struct Known {
    driver: Arc<Driver>,
    pub(super) contents: Watch<Content>,
    pub(super) classes: Watch<Class>,
    mutant: Mutant,
}

impl Informers for Known {
    fn driver(&self) -> Arc<Driver> {
        Arc::clone(&self.driver)
    }

    fn content(&self, name: &Text) -> Option<Arc<Content>> {
        Some(self.mutant.sees(self.contents.get(name).cloned()?))
    }

    fn class(&self, name: &Text) -> Option<Arc<Class>> {
        Some(self.mutant.sees_class(self.classes.get(name).cloned()?))
    }
}

pub(super) type Running = attempts::Running<Process>;
pub(super) type State = attempts::State<Process>;

/// Notes about an attempt.
#[derive(Default)]
pub(super) struct Note {
    /// Whether the driver's answer is not recorded on the content yet.
    pub(super) untold: bool,
}

impl Simulated for Process {
    type Reactor = Snapshotter;
    type Object = Versioned<Content>;
    type Waiting = Infallible;
    type Note = Note;
}

pub(super) struct Process {
    pub(super) attempts: Attempts<Self>,
    pub(super) known: Known,
    pub(super) mutant: Mutant,
    /// Keys woken since the world looked last.
    pub(super) woken: BTreeSet<Text>,
    /// Keys that became ready only because their back-off ended.
    waited: BTreeSet<Text>,
}

impl Process {
    /// A process that starts to list everything.
    pub(super) fn start(server: &Server, mutant: Mutant) -> Self {
        let snapshotter = Snapshotter::new(
            Kind::Single,
            &Settings {
                topology: true,
                ..Settings::default()
            },
        );
        let mut process = Self {
            attempts: Attempts::new(snapshotter, NOW),
            known: Known {
                driver: Arc::new(driver()),
                contents: Watch::new(),
                classes: Watch::new(),
                mutant,
            },
            mutant,
            woken: BTreeSet::new(),
            waited: BTreeSet::new(),
        };
        process.relist(server);
        process
    }

    /// Lists everything again, as at the start and after broken watches.
    pub(super) fn relist(&mut self, server: &Server) {
        self.known
            .contents
            .begin_list(&server.contents, &server.log);
        self.known.classes.begin_list(&server.classes, &server.log);
    }

    /// Reads the remaining pages of the lists.
    pub(super) fn fill(&mut self) {
        while self.page(true) {}
        while self.page(false) {}
    }

    /// Whether work can begin.
    pub(super) fn is_open(&self) -> bool {
        self.known.contents.synced && self.known.classes.synced
    }

    /// Reads the next page of the list of contents or classes; returns whether a list was under way.
    pub(super) fn page(&mut self, contents: bool) -> bool {
        if contents {
            let under_way = self.known.contents.is_listing();
            for change in self.known.contents.page() {
                self.content_changed(&change);
            }
            under_way
        } else {
            let under_way = self.known.classes.is_listing();
            for change in self.known.classes.page() {
                self.class_changed(&change);
            }
            under_way
        }
    }

    fn changed(&mut self, change: Change<'_>) {
        let heard = self.mutant.is_told(&change);
        let due = self.attempts.reactor.observe(change, &self.known);
        if heard {
            self.wake(due);
        }
    }

    fn wake(&mut self, due: Due<Text, Notice>) {
        for wake in &due.wakes {
            self.waited.remove(&wake.key);
            self.woken.insert(wake.key.clone());
        }
        self.attempts.take(due);
    }

    /// Applies one event of the server's log.
    pub(super) fn observe(&mut self, (version, event): &Versioned<Event>) {
        match event.clone() {
            Event::Content(name, object) => {
                let change = self.known.contents.observe(&name, object, *version);
                if let Some(change) = change {
                    self.content_changed(&change);
                }
            }
            Event::Class(name, object) => {
                let change = self.known.classes.observe(&name, object, *version);
                if let Some(change) = change {
                    self.class_changed(&change);
                }
            }
        }
    }

    fn content_changed(&mut self, change: &store::Change<Content>) {
        let (key, old, new, own) = match change {
            store::Change::Upserted {
                key,
                old,
                new,
                source,
            } => (key, old.as_deref(), Some(&**new), *source == Source::Own),
            store::Change::Deleted { key, old } => (key, Some(&**old), None, false),
        };
        let name = Text::from(key.as_str());
        self.changed(Change::Content {
            name,
            old,
            new,
            own,
        });
    }

    fn class_changed(&mut self, change: &store::Change<Class>) {
        let (key, old, new) = match change {
            store::Change::Upserted { key, old, new, .. } => (key, old.as_deref(), Some(&**new)),
            store::Change::Deleted { key, old } => (key, Some(&**old), None),
        };
        let name = Text::from(key.as_str());
        self.changed(Change::Class { name, old, new });
    }

    pub(super) fn driver_is_back(&mut self) {
        self.changed(Change::DriverBack);
    }

    /// Begins an attempt on a queued content; returns whether it has waited out its back-off.
    pub(super) fn begin(&mut self, name: &Text) -> bool {
        self.attempts.begin(name, &self.known);
        self.waited.remove(name)
    }

    /// The next request of attempt `index`; `None` once the attempt has ended.
    pub(super) fn decide(&mut self, index: usize) -> Option<Request> {
        match self.attempts.decide(index, &self.known) {
            Some(request) => {
                let name = &self.attempts.running[index].key;
                let content = self.known.contents.get(name);
                Some(
                    self.mutant
                        .decides(request, name, content.map(|content| &**content)),
                )
            }
            None => {
                self.finish(index);
                None
            }
        }
    }

    /// Passes the reply to the last request of attempt `index` to the controller.
    pub(super) fn answer(&mut self, index: usize, reply: Reply) {
        let content = self.known.contents.get(&self.attempts.running[index].key);
        let record = content.and_then(|content| content.handle());
        let reply = self.mutant.hears(reply, record);
        let due = { &mut self.attempts }.answer(index, reply, &self.known);
        self.wake(due);
    }

    /// Announces a request about the content to the cache.
    pub(super) fn announce(&mut self, name: &Text) {
        self.known.contents.slots.begin_write(&key(name));
    }

    /// Puts the answer about the content into the cache; `None` is a failure.
    pub(super) fn absorb(&mut self, name: &Text, object: Option<Versioned<Content>>) {
        let forgets = self.mutant == Mutant::ForgetsOwnWrites;
        let slots = &mut self.known.contents.slots;
        let change = match object.filter(|_| !forgets) {
            Some((version, object)) => slots.write_answered(&key(name), object, version),
            None => slots.write_failed(&key(name)),
        };
        if let Some(change) = change {
            self.content_changed(&change);
        }
    }

    /// Ends attempt `index`.
    fn finish(&mut self, index: usize) {
        let (name, verdict, due) = self.attempts.end(index, &self.known);
        self.wake(due);
        let attempts = &mut self.attempts;
        match &verdict {
            Verdict::Retry { failure, .. } if !self.mutant.retries(failure) => {}
            Verdict::Retry { .. } | Verdict::After { .. }
                if self.mutant == Mutant::RetriesAtOnce =>
            {
                attempts.ready.insert(name);
            }
            Verdict::After { .. } if self.mutant == Mutant::ForgetsImpossible => {
                attempts.delay(name, Duration::from_secs(1));
            }
            Verdict::Done | Verdict::Retry { .. } | Verdict::After { .. } => {
                attempts.settle(name, &verdict);
            }
        }
    }

    /// Lets time pass, so that back-offs end.
    pub(super) fn wait(&mut self, seconds: u64) {
        let due = self.attempts.wait(seconds);
        self.waited.extend(due);
    }
}
