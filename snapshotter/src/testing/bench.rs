//! A bench that runs the reactor: caches without delay, a scripted driver, a clock that is set
//! forward, and a record of everything that is visible from outside.

mod answers;
mod execute;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sidecar::controller::reactor::{Now, Reactor, Verdict};
use sidecar::queue::exponential;

use super::{NOW, Server, class, content, driver, group_content};
use crate::model::{Class, Content, Kind, SecretRef, Text};
use crate::plan::attempt::Attempt;
use crate::plan::outcome::Refusal;
use crate::plan::reactor::{Change, Notice};
use crate::plan::{Driver, Informers, Membership, Settings, Snapshotter};

pub(crate) use answers::{
    Answer, created, fails, got, group, group_created, group_got, listed, snapshot,
};

/// Another program's change right before a request is applied.
type Meddling = Box<dyn FnOnce(&mut Server)>;

pub(crate) struct Bench {
    pub(crate) settings: Settings,
    pub(crate) retry_start: Duration,
    pub(crate) driver: Driver,
    pub(crate) server: Server,
    /// The report of group contents about members.
    pub(crate) member: Membership,
    /// The driver's responses, in order; after them [`taken`].
    pub(crate) script: VecDeque<Answer>,
    /// Refusals of patches, in order; the flag says whether of metadata or of the status.
    pub(crate) refusals: VecDeque<(bool, Refusal)>,
    /// Change before the next patch arrives; the flag says whether of metadata or of the status.
    pub(crate) meddling: Option<(bool, Meddling)>,
    /// Change while the driver works on its next call.
    pub(crate) during: Option<Meddling>,
    pub(crate) snapshotter: Snapshotter,
    ready: BTreeSet<Text>,
    later: BTreeMap<Text, Instant>,
    failures: BTreeMap<Text, u32>,
    now: Instant,
    clock: Timestamp,
    seen: usize,
    trace: Vec<String>,
    pub(crate) notices: Vec<Notice>,
}

/// The caches, without any delay.
struct Known {
    driver: Arc<Driver>,
    contents: BTreeMap<Text, Arc<Content>>,
    classes: BTreeMap<Text, Arc<Class>>,
    member: Membership,
}

impl Informers for Known {
    fn driver(&self) -> Arc<Driver> {
        Arc::clone(&self.driver)
    }

    fn content(&self, name: &Text) -> Option<Arc<Content>> {
        self.contents.get(name).cloned()
    }

    fn class(&self, name: &Text) -> Option<Arc<Class>> {
        self.classes.get(name).cloned()
    }

    fn member(&self, _group: &Text, _handle: &Text) -> Membership {
        self.member.clone()
    }
}

/// The content of a group in the fixture.
pub(crate) const GROUP: &str = "groupsnapcontent-V1";

impl Bench {
    /// A bench with the group's content and class.
    pub(crate) fn of_group() -> Self {
        let mut bench = Self::empty(Settings::default());
        bench.set(|settings| settings.name.prefix = "groupsnapshot".into());
        bench.server.put_class(&"g".into(), Some(class()));
        bench.server.put(&GROUP.into(), Some(group_content()));
        bench
    }

    /// Changes the content of the group.
    pub(crate) fn group(&mut self, change: impl FnOnce(&mut Content)) {
        self.server.change(&GROUP.into(), change);
    }

    /// A bench with the fixture's content and class.
    pub(crate) fn new() -> Self {
        let mut bench = Self::empty(Settings::default());
        bench.server.put_class(&"c1".into(), Some(class()));
        bench.server.put(&"snapcontent-U1".into(), Some(content()));
        bench
    }

    pub(crate) fn empty(settings: Settings) -> Self {
        Self {
            snapshotter: Snapshotter::new(Kind::Single, &settings),
            settings,
            retry_start: Duration::from_secs(1),
            driver: driver(),
            server: Server::default(),
            member: Membership::Unknown,
            script: VecDeque::new(),
            refusals: VecDeque::new(),
            meddling: None,
            during: None,
            ready: BTreeSet::new(),
            later: BTreeMap::new(),
            failures: BTreeMap::new(),
            now: Instant::now(),
            clock: NOW.parse().unwrap(),
            seen: 0,
            trace: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// Changes the settings; for the start of a test.
    pub(crate) fn set(&mut self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings);
        self.snapshotter = Snapshotter::new(Kind::Single, &self.settings);
    }

    /// Changes the content of the fixture.
    pub(crate) fn content(&mut self, change: impl FnOnce(&mut Content)) {
        self.server.change(&"snapcontent-U1".into(), change);
    }

    /// Changes the class of the fixture.
    pub(crate) fn class(&mut self, change: impl FnOnce(&mut Class)) {
        let (name, (_, class)) = self.server.classes.first_key_value().unwrap();
        let (name, mut class) = (name.clone(), class.clone());
        change(&mut class);
        self.server.put_class(&name, Some(class));
    }

    pub(crate) fn secret(&mut self, namespace: &str, name: &str) {
        let reference = SecretRef {
            namespace: namespace.into(),
            name: name.into(),
        };
        let values = [("u".to_owned(), "p".to_owned())].into();
        self.server.secrets.insert(reference, Some(values));
    }

    /// Appends the driver's next responses to CreateSnapshot, ListSnapshots and so on.
    pub(crate) fn answers(&mut self, answers: impl IntoIterator<Item = Answer>) {
        self.script.extend(answers);
    }

    fn known(&self) -> Known {
        let contents = self.server.contents.iter();
        let classes = self.server.classes.iter();
        Known {
            driver: Arc::new(self.driver.clone()),
            member: self.member.clone(),
            contents: contents
                .map(|(name, (_, content))| (name.clone(), Arc::new(content.clone())))
                .collect(),
            classes: classes
                .map(|(name, (_, class))| (name.clone(), Arc::new(class.clone())))
                .collect(),
        }
    }

    fn moment(&self) -> Now {
        Now {
            instant: self.now,
            timestamp: self.clock,
        }
    }

    /// Restarts the process.
    pub(crate) fn restart(&mut self) {
        self.snapshotter = Snapshotter::new(Kind::Single, &self.settings);
        self.ready.clear();
        self.later.clear();
        self.failures.clear();
        self.ready.extend(self.server.contents.keys().cloned());
        self.seen = self.server.log.len();
    }

    /// Delivers the changes since the last time. `own`: the process itself made them.
    fn tell(&mut self, own: bool) {
        let known = self.known();
        for (_, event) in self.server.log.split_off(self.seen) {
            let due = match &event {
                super::Event::Content(name, new) => {
                    let old = self.last_content(name);
                    self.snapshotter.observe(
                        Change::Content {
                            name: name.clone(),
                            old: old.as_ref(),
                            new: new.as_ref(),
                            own,
                        },
                        &known,
                    )
                }
                super::Event::Class(name, new) => {
                    let old = self.last_class(name);
                    let change = Change::Class {
                        name: name.clone(),
                        old: old.as_ref(),
                        new: new.as_ref(),
                    };
                    self.snapshotter.observe(change, &known)
                }
            };
            self.server.log.push((0, event));
            self.ready
                .extend(due.wakes.into_iter().map(|wake| wake.key));
        }
        self.seen = self.server.log.len();
    }

    fn last_content(&self, of: &Text) -> Option<Content> {
        let mut log = self.server.log.iter().rev();
        log.find_map(|(_, event)| match event {
            super::Event::Content(name, object) if name == of => Some(object.clone()),
            super::Event::Content(..) | super::Event::Class(..) => None,
        })?
    }

    fn last_class(&self, of: &Text) -> Option<Class> {
        let mut log = self.server.log.iter().rev();
        log.find_map(|(_, event)| match event {
            super::Event::Class(name, object) if name == of => Some(object.clone()),
            super::Event::Content(..) | super::Event::Class(..) => None,
        })?
    }

    /// Works until no content is queued; returns what happened, in order.
    pub(crate) fn run(&mut self) -> Vec<String> {
        for _ in 0..200 {
            self.tell(false);
            let Some(name) = self.ready.pop_first() else {
                return std::mem::take(&mut self.trace);
            };
            self.later.remove(&name);
            let (known, now) = (self.known(), self.moment());
            let run = self.snapshotter.begin(&name, &known, now);
            self.attempt(name, run);
        }
        panic!("the work does not end: {:?}", self.trace);
    }

    /// Advances the clock to the next retry; returns the whole seconds until then, and what
    /// happened.
    pub(crate) fn next(&mut self) -> (u64, Vec<String>) {
        let next = self.later.values().min().copied();
        let next = next.expect("nothing waits for a retry");
        let waited = next - self.now;
        self.now = next;
        self.clock += waited;
        let due = self.later.iter().filter(|(_, at)| **at <= self.now);
        let due: Vec<Text> = due.map(|(name, _)| name.clone()).collect();
        for name in due {
            self.later.remove(&name);
            self.ready.insert(name);
        }
        (waited.as_secs(), self.run())
    }

    /// Whether no content waits for a retry.
    pub(crate) fn rests(&self) -> bool {
        self.later.is_empty()
    }

    /// The driver is reachable again.
    pub(crate) fn driver_back(&mut self) {
        let known = self.known();
        let due = self.snapshotter.observe(Change::DriverBack, &known);
        self.ready
            .extend(due.wakes.into_iter().map(|wake| wake.key));
    }

    pub(crate) fn resync(&mut self) -> Vec<String> {
        for name in self.server.contents.keys().cloned().collect::<Vec<_>>() {
            let known = self.known();
            let due = self.snapshotter.observe(Change::Resync(name), &known);
            self.ready
                .extend(due.wakes.into_iter().map(|wake| wake.key));
        }
        self.run()
    }

    fn attempt(&mut self, name: Text, mut run: Option<Attempt>) {
        for _ in 0..200 {
            let now = self.moment();
            let known = self.known();
            let request = self.snapshotter.decide(&mut run, &known, now);
            let Some(request) = request else {
                return self.end(name, run);
            };
            self.tell(false);
            let reply = self.execute(request);
            self.tell(true);
            let known = self.known();
            let due = self.snapshotter.answered(&mut run, reply, &known);
            self.notices.extend(due.notices);
        }
        panic!("the attempt does not end: {:?}", self.trace);
    }

    fn end(&mut self, name: Text, run: Option<Attempt>) {
        let (known, now) = (self.known(), self.moment());
        let (verdict, due) = self.snapshotter.end(run, &known, now);
        self.notices.extend(due.notices);
        let delay = exponential(self.retry_start, self.settings.retry_max);
        let wait = match verdict {
            Verdict::Done => {
                self.failures.remove(&name);
                return;
            }
            Verdict::Retry { .. } => {
                let failures = self.failures.entry(name.clone()).or_default();
                *failures += 1;
                delay(*failures)
            }
            Verdict::After { delay, .. } => delay,
        };
        self.later.insert(name, self.now + wait);
    }
}
