//! One run: dice choose the next event, and every change is checked as it happens.

use std::collections::{BTreeMap, BTreeSet};

use sidecar_testkit::sim::watch::next_event;

use super::Dice;
use super::driver::{ModelDriver, key};
use super::mutant::Mutant;
use super::process::Process;
use super::quiescence::Comparison;
use super::server::{Event, Server};
use crate::model::Attachment;
use crate::plan::flight::Target;
use crate::plan::orphan;
use crate::plan::request::Write;
use crate::testing::driver;

/// The faults of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Faults {
    /// Late watch events only.
    None,
    /// In addition, the process stops at any point.
    Crashes,
    /// In addition, requests, calls, watches and the driver's memory fail.
    All,
    /// As `All`, with several attachments for one volume and node.
    Aliases,
    /// As `All`, but the process never stops, since a restart forgets orphans; somebody removes our
    /// finalizer from attachments, so that they disappear at any step.
    Strips,
    /// As `All`, and some faults never heal: the driver always refuses to publish the first volume,
    /// and the first node never registers the driver.
    Lasts,
}

/// Statistics of a run without violation.
pub(super) struct Outcome {
    pub(super) steps: usize,
}

pub(super) const VOLUMES: [&str; 2] = ["pv0", "pv1"];
pub(super) const NODES: [&str; 2] = ["n0", "n1"];
const ACTIONS: usize = 120;
/// Most calls for one attachment without time passing: events, other attempts that end and
/// comparisons with the driver's list may each cause one.
const MOST_ASKED: usize = 12;

pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) faults: Faults,
    pub(super) mutant: Mutant,
    pub(super) server: Server,
    pub(super) driver: ModelDriver,
    pub(super) process: Process,
    /// Number of attachments created for each volume and node.
    pub(super) made: BTreeMap<(String, String), u32>,
    pub(super) uids: u64,
    steps: usize,
    /// The first violation.
    violation: Option<String>,
    /// Whether the run is in its final phase, without faults.
    pub(super) settling: bool,
    /// The running comparison with the driver's list.
    pub(super) comparison: Option<Comparison>,
    /// Patches of stopped processes that are still in flight.
    pub(super) late: Vec<Write>,
    /// Whether the server is applying one of these.
    pub(super) arriving: bool,
    /// Calls for each attachment or orphan since the last tick.
    pub(super) asked: BTreeMap<String, usize>,
    /// Volumes and nodes of attachments from which somebody removed our finalizer.
    pub(super) stripped: BTreeSet<(String, String)>,
    /// Those of them that must not be unpublished, because they may be in use.
    pub(super) in_use: BTreeSet<(String, String)>,
}

/// Runs the interleaving of `seed`.
pub(super) fn run(seed: u64, faults: Faults, mutant: Mutant) -> Result<Outcome, String> {
    let server = Server::default();
    let process = Process::start(driver(), mutant);
    let mut world = World {
        dice: Dice::new(seed),
        faults,
        mutant,
        server,
        driver: ModelDriver::default(),
        process,
        made: BTreeMap::new(),
        uids: 0,
        steps: 0,
        violation: None,
        settling: false,
        comparison: None,
        late: Vec::new(),
        arriving: false,
        asked: BTreeMap::new(),
        stripped: BTreeSet::new(),
        in_use: BTreeSet::new(),
    };
    world.furnish();
    for _ in 0..ACTIONS {
        world.act();
        if let Some(violation) = world.violation.take() {
            return Err(violation);
        }
    }
    world.settle();
    if world.violation.is_none() {
        world.check_rest()?;
        world.cure();
    }
    if world.violation.is_none() {
        world.leave();
    }
    match world.violation.take() {
        Some(violation) => Err(violation),
        None => world.check_left().map(|()| Outcome { steps: world.steps }),
    }
}

impl World {
    fn act(&mut self) {
        self.steps += 1;
        let all = self.has_faults();
        let crashes = !matches!(self.faults, Faults::None | Faults::Strips);
        match self.dice.below(24) {
            0..=2 => self.user(),
            3..=7 => self.deliver(),
            8 | 9 => self.retry(),
            10 if crashes && self.dice.one_in(4) => self.crash(),
            10 if self.faults == Faults::Strips => self.strip(),
            10 if crashes => self.arrive_late(),
            11 if all => self.end_orphan(),
            12 if all && self.dice.one_in(2) => self.disturb(),
            _ => self.work(),
        }
    }

    /// One watch delivers its next event, repeats an old one, or breaks; or a part of a list
    /// arrives.
    pub(super) fn deliver(&mut self) {
        let all = self.has_faults();
        let kind = self.dice.below(3);
        if all && self.dice.one_in(12) {
            self.process.relist(kind);
        }
        if self.process.lists(kind) {
            for _ in 0..=self.dice.below(4) {
                self.go_on_listing(kind);
            }
            return;
        }
        let (log, cursor) = (&self.server.log, self.process.cursor(kind));
        let is_of = |event: &Event| kind_of(event) == kind;
        if let Some(at) = next_event(&mut self.dice, log, cursor, all, is_of) {
            self.process.observe(&log[at]);
        }
    }

    fn go_on_listing(&mut self, kind: usize) {
        if self.process.go_on_listing(kind, &self.server) {
            self.note_what_is_gone();
        }
    }

    /// Notes volumes whose attachment disappeared while attached, held and not being deleted: they
    /// may be in use.
    fn note_what_is_gone(&mut self) {
        for (name, known) in self.process.informers.attachments.slots.iter() {
            let now = self.server.attachments.get(name.as_str());
            let same = now.is_some_and(|(_, object)| object.uid == known.uid);
            if !same && orphan::is_unexplained(known, &self.process.informers.driver) {
                self.in_use.insert(key(&target(known)));
            }
        }
    }

    /// Lists everything again.
    pub(super) fn list(&mut self) {
        for kind in 0..3 {
            self.process.relist(kind);
            while self.process.lists(kind) {
                self.go_on_listing(kind);
            }
        }
    }

    pub(super) fn has_faults(&self) -> bool {
        !matches!(self.faults, Faults::None | Faults::Crashes)
    }

    fn retry(&mut self) {
        self.process.attempts.retry_all();
        self.asked.clear();
    }

    pub(super) fn complain(&mut self, violation: String) {
        self.violation.get_or_insert(violation);
    }

    /// Counts a call for `whom`, and complains if it is repeated over and over between two ticks.
    pub(super) fn asks(&mut self, whom: String) {
        let asked = self.asked.entry(whom).or_default();
        *asked += 1;
        if *asked > MOST_ASKED {
            let whom = self.asked.iter().max_by_key(|(_, asked)| **asked);
            self.complain(format!("calls without a pause: {whom:?}"));
        }
    }

    pub(super) fn retry_all(&mut self) {
        self.retry();
    }

    /// Ends a call whose caller is gone.
    fn end_orphan(&mut self) {
        let orphan = self.driver.running.iter().find(|call| !call.awaited);
        if let Some(id) = orphan.map(|call| call.id) {
            let effect = self.dice.one_in(2);
            self.end_call(id, effect);
        }
    }

    /// The driver forgets an attachment, or a comparison with its list begins or ends.
    fn disturb(&mut self) {
        if self.dice.one_in(3) {
            let held = self.driver.attached.iter().next().cloned();
            if let Some(held) = held {
                self.driver.attached.remove(&held);
            }
        } else {
            self.reconcile()
        }
    }
}

fn kind_of(event: &Event) -> usize {
    match event {
        Event::Attachment(..) => 0,
        Event::Volume(..) => 1,
        Event::Node(..) => 2,
    }
}

pub(super) fn target(attachment: &Attachment) -> Target {
    let volume = attachment.volume.as_deref().unwrap_or_default();
    Target::new(&format!("h-{volume}"), &format!("id-{}", attachment.node))
}
