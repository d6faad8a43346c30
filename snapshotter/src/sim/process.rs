//! One snapshotter process: the controller that ships, caches fed by late events, a queue that is a
//! set, and attempts that advance step by step.
//!
//! The caches are the real ones, without their locks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sidecar::controller::reactor::{Due, Now, Reactor, Verdict};
use sidecar::kube::cache::{Source, store};
use sidecar_testkit::sim::watch::{Watch, key};

use super::mutant::Mutant;
use crate::model::{Class, Content, Text};
use crate::plan::reactor::{Change, Notice, Request, Run};
use crate::plan::step::{Answer, Step};
use crate::plan::{Driver, Informers, Settings, Snapshotter};
use crate::testing::{Event, NOW, Server, Versioned, driver};

/// What the controller looks at: caches, as a mutant sees them.
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

/// An attempt under way.
pub(super) struct Running {
    pub(super) name: Text,
    run: Run,
    pub(super) state: State,
    /// What the driver says of the snapshot is not on the content.
    pub(super) untold: bool,
}

/// Between two steps, or within one.
pub(super) enum State {
    Deciding,
    /// Sent to the API server or to a list, not yet applied.
    Sent(Request),
    /// The driver works on it.
    Calling(Request, u64),
    /// The answer is on its way; with the object if there is one.
    Answered(Request, Answer, Option<Box<Versioned<Content>>>),
    /// The lease is over: it is not sent.
    Fenced,
}

pub(super) struct Process {
    pub(super) snapshotter: Snapshotter,
    pub(super) known: Known,
    pub(super) mutant: Mutant,
    pub(super) ready: BTreeSet<Text>,
    pub(super) later: BTreeMap<Text, Instant>,
    /// Keys that something has woken since the world looked last.
    pub(super) woken: BTreeSet<Text>,
    /// Keys that are ready since their back-off has ended, and for nothing else.
    waited: BTreeSet<Text>,
    failures: BTreeMap<Text, u32>,
    pub(super) running: Vec<Running>,
    pub(super) now: Instant,
}

impl Process {
    /// A process that has just begun to list everything.
    pub(super) fn start(server: &Server, mutant: Mutant) -> Self {
        let mut process = Self {
            snapshotter: Snapshotter::new(&Settings {
                topology: true,
                ..Settings::default()
            }),
            known: Known {
                driver: Arc::new(driver()),
                contents: Watch::new(),
                classes: Watch::new(),
                mutant,
            },
            mutant,
            ready: BTreeSet::new(),
            later: BTreeMap::new(),
            woken: BTreeSet::new(),
            waited: BTreeSet::new(),
            failures: BTreeMap::new(),
            running: Vec::new(),
            now: Instant::now(),
        };
        process.relist(server);
        process
    }

    /// Begins to list everything anew, as at the start and after watches broke.
    pub(super) fn relist(&mut self, server: &Server) {
        self.known
            .contents
            .begin_list(&server.contents, &server.log);
        self.known.classes.begin_list(&server.classes, &server.log);
    }

    /// The rest of the lists.
    pub(super) fn fill(&mut self) {
        while self.page(true) {}
        while self.page(false) {}
    }

    /// Whether work may begin.
    pub(super) fn is_open(&self) -> bool {
        self.known.contents.synced && self.known.classes.synced
    }

    /// The next page of a list, of contents or of classes; whether one was under way.
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
        let due = self.snapshotter.observe(change, &self.known);
        if heard {
            self.wake(due);
        }
    }

    fn wake(&mut self, due: Due<Text, Notice>) {
        let keys = due.wakes.into_iter().map(|wake| wake.key);
        for name in keys {
            self.later.remove(&name);
            self.waited.remove(&name);
            self.woken.insert(name.clone());
            self.ready.insert(name);
        }
    }

    /// Takes in one event of the server's log.
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

    fn moment(&self) -> Now {
        Now {
            instant: self.now,
            timestamp: NOW.parse().unwrap(),
        }
    }

    /// Begins an attempt on a queued content; whether it has waited out its back-off.
    pub(super) fn begin(&mut self, name: &Text) -> bool {
        self.ready.remove(name);
        self.later.remove(name);
        let now = self.moment();
        let run = self.snapshotter.begin(name, &self.known, now);
        self.running.push(Running {
            name: name.clone(),
            run,
            state: State::Deciding,
            untold: false,
        });
        self.waited.remove(name)
    }

    /// The next step of attempt `index`; `None` if the attempt is over, and ended.
    pub(super) fn decide(&mut self, index: usize) -> Option<Request> {
        let now = self.moment();
        let run = &mut self.running[index].run;
        match self.snapshotter.decide(run, &self.known, now) {
            Some(request) => {
                let content = self.known.contents.get(&request.content).cloned();
                Some(self.mutant.decides(request, content.as_deref()))
            }
            None => {
                self.finish(index);
                None
            }
        }
    }

    /// What came of the last step of attempt `index` reaches the controller.
    pub(super) fn answer(&mut self, index: usize, request: Request, answer: Answer) {
        let answer = self.mutant.hears(&request.step, answer);
        let run = &mut self.running[index].run;
        let due = self.snapshotter.answered(run, request, answer, &self.known);
        self.wake(due);
    }

    /// A request about the content is about to be sent.
    pub(super) fn announce(&mut self, name: &Text) {
        self.known.contents.slots.begin_write(&key(name));
    }

    /// Takes the answer to a request about the content into the cache; `None` is a failure.
    pub(super) fn absorb(&mut self, name: &Text, object: Option<Box<Versioned<Content>>>) {
        let forgets = self.mutant == Mutant::ForgetsOwnWrites;
        let slots = &mut self.known.contents.slots;
        let change = match object.filter(|_| !forgets) {
            Some(object) => {
                let (version, object) = *object;
                slots.write_answered(&key(name), object, version)
            }
            None => slots.write_failed(&key(name)),
        };
        if let Some(change) = change {
            self.content_changed(&change);
        }
    }

    /// Ends attempt `index`.
    fn finish(&mut self, index: usize) {
        let Running { name, run, .. } = self.running.remove(index);
        let now = self.moment();
        let (verdict, due) = self.snapshotter.end(run, &self.known, now);
        self.wake(due);
        let wait = match verdict {
            Verdict::Done => {
                self.failures.remove(&name);
                return;
            }
            Verdict::Retry { failure, .. } if !self.mutant.retries(&failure) => return,
            Verdict::After { .. } if self.mutant == Mutant::ForgetsImpossible => 1,
            Verdict::After { delay, .. } => delay.as_secs(),
            Verdict::Retry { .. } => {
                let failures = self.failures.entry(name.clone()).or_default();
                *failures += 1;
                2_u64.saturating_pow(*failures - 1).min(300)
            }
        };
        if self.mutant == Mutant::RetriesAtOnce {
            self.ready.insert(name);
        } else if !self.ready.contains(&name) {
            let due = self.now + Duration::from_secs(wait);
            self.later.insert(name, due);
        }
    }

    /// Time passes, and back-offs end.
    pub(super) fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        let now = self.now;
        let due = self.later.extract_if(.., |_, at| *at <= now);
        let due: Vec<Text> = due.map(|(name, _)| name).collect();
        self.waited.extend(due.iter().cloned());
        self.ready.extend(due);
    }
}

/// Whether a step is a request about the content itself.
pub(super) fn is_about_content(step: &Step) -> bool {
    matches!(step, Step::Read | Step::Patch(..) | Step::PatchStatus(..))
}
