//! The controllers of the process that answer.

use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use serde_json::{Value, json};

use super::answer::{self, Busy, Controller, Leadership, Row};
use super::explain::{EngineAnswer, OpenIntent, written};
use super::object::Object;
use crate::controller::driver_info::DriverInfo;
use crate::controller::engine::now;
use crate::controller::link::Link;
use crate::controller::serve::LeaderHealth;
use crate::kube::access::Findings;
use crate::kube::cache::Sink;
use crate::mutex::lock;
use crate::redact::plain;

/// Keys in the list of all.
const MOST: usize = 100;

/// An engine, whichever controller it drives.
pub trait Explainer: Send + Sync {
    /// What it says about the object: `Err` if it does not exist any more, `None` if its controller never has work for
    /// such objects.
    ///
    /// # Errors
    /// The engine has ended.
    fn about(&self, object: &Object) -> Result<Option<EngineAnswer>, Ended>;

    /// Its keys that are not idle, `most` at most.
    ///
    /// # Errors
    /// The engine has ended.
    fn busy(&self, most: usize) -> Result<Busy, Ended>;

    /// The open intents of its journal, if it has one.
    fn intents(&self) -> Option<Vec<OpenIntent>>;
}

/// The engine has ended: its controller has lost its lease, or the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

/// The lists of one controller; clones share them.
#[derive(Clone, Default)]
pub struct Lists(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    lists: Vec<(&'static str, Arc<dyn Sink>)>,
    has_begun: bool,
}

impl Lists {
    /// The controller watches these kinds of objects as well.
    pub(crate) fn watches(&self, lists: impl IntoIterator<Item = (&'static str, Arc<dyn Sink>)>) {
        let mut known = lock(&self.0);
        for (kind, cache) in lists {
            known.lists.retain(|(known, _)| *known != kind);
            known.lists.push((kind, cache));
        }
    }

    /// Work begins.
    pub(crate) fn begin(&self) {
        lock(&self.0).has_begun = true;
    }

    fn synced(&self) -> (Vec<(&'static str, bool)>, bool) {
        let known = lock(&self.0);
        let lists = known.lists.iter();
        let synced = lists.map(|(kind, cache)| (*kind, cache.sync_state().is_synced()));
        (synced.collect(), known.has_begun)
    }
}

/// An engine with what is known of its controller.
#[derive(Clone)]
pub struct Entry {
    /// Name of the program.
    pub program: &'static str,
    /// Name of the controller among those of the process.
    pub name: &'static str,
    /// The driver's name; empty for a controller of all drivers.
    pub driver: String,
    /// Name of the lease; without leader election nobody knows it.
    pub lease: String,
    /// The connection to the driver.
    pub link: Option<Weak<Link>>,
    /// Its lists.
    pub lists: Lists,
    /// The engine.
    pub explainer: Arc<dyn Explainer>,
}

/// What the process knows apart from its engines.
#[derive(Clone)]
pub struct ProcessFacts {
    /// Name of the process's program.
    pub program: &'static str,
    /// Who leads.
    pub health: LeaderHealth,
    /// Missing permissions.
    pub missing: Findings,
    /// The driver.
    pub driver: DriverInfo,
    /// The process has a driver.
    pub has_driver: bool,
    /// Start of the process.
    pub start: Instant,
}

impl ProcessFacts {
    /// Facts about the process of this program, which starts now. `driver`: what it tells, and whether there is one.
    #[must_use]
    pub fn new(
        program: &'static str,
        health: &LeaderHealth,
        missing: &Findings,
        driver: (&DriverInfo, bool),
    ) -> Self {
        Self {
            program,
            health: health.clone(),
            missing: missing.clone(),
            driver: driver.0.clone(),
            has_driver: driver.1,
            start: now().instant,
        }
    }
}

/// The controllers of the process that answer; clones share the list.
#[derive(Clone)]
pub struct Explainers {
    facts: ProcessFacts,
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl Explainers {
    /// Nobody answers yet.
    #[must_use]
    pub fn new(facts: ProcessFacts) -> Self {
        Self {
            facts,
            entries: Arc::default(),
        }
    }

    /// From now on this engine answers, until it ends.
    pub fn add(&self, entry: Entry) {
        lock(&self.entries).push(entry);
    }

    fn entries(&self) -> Vec<Entry> {
        lock(&self.entries).clone()
    }

    /// Forgets the engines that have ended.
    fn retain(&self, ended: &[Arc<dyn Explainer>]) {
        let is_ended =
            |entry: &Entry| { ended.iter() }.any(|ended| Arc::ptr_eq(ended, &entry.explainer));
        lock(&self.entries).retain(|entry| !is_ended(entry));
    }

    fn controller(&self, entry: &Entry) -> Controller {
        let (synced, has_begun) = entry.lists.synced();
        let without_election = Leadership {
            leads: true,
            ..Leadership::default()
        };
        let leadership = self.facts.health.leadership(&entry.lease);
        let missing = self.facts.missing.missing().into_iter();
        let missing = missing.filter(|(_, controllers)| controllers.contains(&entry.name));
        let link = entry.link.as_ref().and_then(Weak::upgrade);
        Controller {
            program: entry.program,
            driver: entry.driver.clone(),
            leadership: leadership.unwrap_or(without_election),
            link: link.map(|link| link.state()),
            synced,
            has_begun,
            missing: missing.map(|(rule, _)| rule).collect(),
        }
    }

    /// Controllers of this process that do not work, since their leases are others' or their driver is not known yet.
    fn standbys(&self, entries: &[Entry]) -> Vec<Controller> {
        let works = |lease: &str| entries.iter().any(|entry| entry.lease == lease);
        let leases = self.facts.health.leases().into_iter();
        let idle = leases.filter(|lease| !works(lease));
        let standby = |lease: String| Controller {
            program: self.facts.program,
            leadership: Leadership {
                leads: false,
                ..self.facts.health.leadership(&lease).unwrap_or_default()
            },
            ..Controller::default()
        };
        idle.map(standby).collect()
    }

    /// What all controllers say about an object, and whether any of them knows it or may once it leads.
    pub fn about(&self, object: &Object) -> (bool, Value) {
        let (now, entries) = (now(), self.entries());
        let (mut answers, mut ended) = (Vec::new(), Vec::new());
        for one in &entries {
            match one.explainer.about(object) {
                Ok(Some(told)) => {
                    let controller = self.controller(one);
                    answers.extend(answer::answers(&controller, object, Ok(&told), now));
                }
                Ok(None) => {}
                Err(Ended) => ended.push(Arc::clone(&one.explainer)),
            }
        }
        self.retain(&ended);
        let entries = self.entries();
        for standby in self.standbys(&entries) {
            answers.extend(answer::answers(&standby, object, Err("standby"), now));
        }
        if let Some(waiting) = self.waiting_for_driver(&entries) {
            answers.extend(answer::answers(&waiting, object, Err("unsynced"), now));
        }
        answer::about(object, answers, now)
    }

    /// The process as a controller that knows nothing yet, before its driver has told its name.
    fn waiting_for_driver(&self, entries: &[Entry]) -> Option<Controller> {
        let waits = entries.is_empty()
            && self.facts.has_driver
            && self.facts.driver.watch().borrow().is_none();
        waits.then(|| Controller {
            program: self.facts.program,
            link: Some((false, self.facts.start)),
            ..Controller::default()
        })
    }

    fn busy(&self, most: usize) -> Vec<(Controller, Option<Busy>)> {
        let (mut all, mut ended) = (Vec::new(), Vec::new());
        for one in &self.entries() {
            match one.explainer.busy(most) {
                Ok(busy) => all.push((self.controller(one), Some(busy))),
                Err(Ended) => ended.push(Arc::clone(&one.explainer)),
            }
        }
        self.retain(&ended);
        let entries = self.entries();
        let idle = { self.standbys(&entries).into_iter() }.chain(self.waiting_for_driver(&entries));
        all.extend(idle.map(|controller| (controller, None)));
        all
    }

    /// What is not idle.
    pub fn list(&self) -> Value {
        let mut controllers = self.busy(MOST);
        let mut rows = Vec::new();
        for (controller, busy) in &mut controllers {
            let taken = busy.as_mut().map(|busy| std::mem::take(&mut busy.rows));
            let taken = taken.unwrap_or_default().into_iter();
            rows.extend(taken.map(|(since, work)| Row {
                program: controller.program,
                has_begun: controller.has_begun,
                since,
                work,
            }));
        }
        answer::list(&controllers, rows, MOST, now())
    }

    /// The driver, its connection, and what is under way.
    pub fn driver(&self) -> Value {
        let (now, known) = (now(), self.facts.driver.watch().borrow().clone());
        let entries = self.entries();
        let link = entries.iter().find_map(|one| one.link.as_ref()?.upgrade());
        let link = link.map(|link| link.state());
        let mut under_way = std::collections::BTreeMap::<String, usize>::new();
        for (_, busy) in self.busy(0) {
            for (name, count) in busy.map(|busy| busy.under_way).unwrap_or_default() {
                *under_way.entry(name).or_default() += count;
            }
        }
        json!({
            "version": answer::VERSION,
            "now": written(now.timestamp),
            "driver": known.as_ref().map(|known| &known.name),
            "driverVersion": known.as_ref().map(|known| plain(&known.version)),
            "capabilities": known.as_ref().map(|known| &known.capabilities),
            "driverLink": answer::link(link, now),
            "underWay": under_way,
        })
    }

    /// The open intents; `None` if no controller here keeps a journal.
    pub fn journal(&self) -> Option<Value> {
        let entries = self.entries();
        let intents = entries.iter().filter_map(|one| one.explainer.intents());
        let all = intents.reduce(|mut all, more| {
            all.extend(more);
            all
        })?;
        Some(answer::journal(&all, MOST, now()))
    }
}
