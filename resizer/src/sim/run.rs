//! One run: dice choose what happens next, and every change is checked at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use sidecar_testkit::sim::watch::next_event;

use super::Dice;
use super::attempt::{Object, Running, State};
use super::driver::ModelDriver;
use super::mutant::Mutant;
use super::process::Process;
use super::server::{Event, Server};
use crate::model::{ClaimDetail, ResizeStatus, Text};
use crate::plan::driver::Expansion;
use crate::plan::request::{Request, Write};
use crate::plan::{Driver, Settings};
use crate::testing::driver;

/// The faults of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Faults {
    /// Only late watch events.
    None,
    /// The process is also killed at any point.
    Crashes,
    /// Requests, calls and watches also fail, sizes are infeasible, volumes are in use.
    All,
    /// As `All`, with one volume handle for all volumes.
    Aliases,
    /// As `All`, and whatever is infeasible, missing, unreadable or in use stays so for ever.
    Lasting,
    /// As `All`, with a driver that leaves expansions to the node, some of which fail there.
    NodeOnly,
}

/// Facts about a claim's volume beyond the objects.
#[derive(Default)]
pub(super) struct Truth {
    /// The class that the claim records as in progress; a process that has ended may have called
    /// for it.
    pub(super) left_class: Option<String>,
    /// The same for its size.
    pub(super) left_size: bool,
    /// The classes that this process has announced since the last one was applied.
    pub(super) told: BTreeSet<String>,
    /// Reasons of the last events about its size and its class, with the class requested at that
    /// time.
    pub(super) last: (&'static str, &'static str, Text),
    /// The size that was last called infeasible, and when.
    pub(super) impossible: Option<(i64, Instant)>,
    /// Requests and calls since the clock advanced or anything changed.
    pub(super) effort: u32,
    /// The largest size that a call without a final response may have reached.
    pub(super) size: Option<i64>,
    /// The class of a call without a final response.
    pub(super) class: Option<String>,
    /// Number of sizes, and of classes, that the user has requested.
    pub(super) wishes: (u32, u32),
    /// Number of calls to expand, and to modify.
    pub(super) calls: (u32, u32),
}

const ACTIONS: usize = 150;

pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) faults: Faults,
    mutant: Mutant,
    pub(super) server: Server,
    pub(super) driver: ModelDriver,
    pub(super) process: Process,
    /// The former leader, frozen.
    pub(super) frozen: Option<Box<Process>>,
    /// Whether `process` is a former leader that goes on.
    pub(super) thawed: bool,
    /// The driver and the flags of the next process.
    pub(super) next: (Driver, Settings),
    /// Patches whose callers have given up, still on their way.
    pub(super) late: Vec<Write>,
    /// One in how many steps such a patch arrives. High in some runs: then many other writes
    /// overtake it.
    lag: usize,
    /// kubelet's next write: claim, the version that it has read, and the object.
    pub(super) node_write: Option<(Text, u64, ClaimDetail)>,
    /// By UID of the claim.
    pub(super) truths: BTreeMap<String, Truth>,
    /// The first violation.
    violation: Option<String>,
    /// The end of the run, without faults.
    pub(super) settling: bool,
    /// Whether driver, Secrets and flags change. Not in every run: without it others get further.
    pub(super) restless: bool,
}

/// Runs the interleaving of `seed`.
pub(super) fn run(seed: u64, faults: Faults, mutant: Mutant) -> Result<(), String> {
    let server = Server::default();
    let mut found = (driver(), Settings::default());
    if faults == Faults::NodeOnly {
        found.0.abilities.expansion = Expansion::NodeOnly;
    }
    let process = Process::start(&server, found.clone(), mutant);
    let mut world = World {
        dice: Dice::new(seed),
        faults,
        mutant,
        server,
        driver: ModelDriver::default(),
        process,
        frozen: None,
        thawed: false,
        next: found.clone(),
        late: Vec::new(),
        lag: 1,
        node_write: None,
        truths: BTreeMap::new(),
        violation: None,
        settling: false,
        restless: false,
    };
    world.restless = world.has_all_faults() && world.dice.one_in(3);
    world.lag = [1, 20][world.dice.below(2)];
    world.furnish();
    world.process = Process::start(&world.server, found.clone(), mutant);
    world.fill();
    for _ in 0..ACTIONS {
        world.act();
        if let Some(violation) = world.violation.take() {
            return Err(violation);
        }
    }
    world.settle(found);
    if let Some(violation) = world.violation.take() {
        return Err(violation);
    }
    world.check_rest()?;
    world.leave();
    match world.violation.take() {
        Some(violation) => Err(violation),
        None => world.check_left(),
    }
}

impl World {
    pub(super) fn has_all_faults(&self) -> bool {
        !matches!(self.faults, Faults::None | Faults::Crashes)
    }

    fn act(&mut self) {
        let all = self.has_all_faults();
        match self.dice.below(24) {
            0..=2 => self.user(),
            3 => self.surroundings(),
            4 => self.kubelet(),
            5..=9 => self.deliver(),
            10 => self.retry(),
            11 if self.faults != Faults::None && self.dice.one_in(4) => self.crash(),
            13 if self.faults != Faults::None && self.dice.one_in(3) => self.freeze_or_thaw(),
            12 if all && self.dice.one_in(2) => self.end_orphan(),
            12 if self.faults != Faults::None && self.dice.one_in(self.lag) => self.arrive_late(),
            _ => return self.work(),
        }
        for truth in self.truths.values_mut() {
            truth.effort = 0;
        }
    }

    /// One watch delivers its next event, repeats an earlier one, or breaks.
    fn deliver(&mut self) {
        let all = self.has_all_faults();
        if all && self.dice.one_in(12) {
            self.process.relist(&self.server);
            return self.fill();
        }
        // Claims change most often.
        let kind = [0, 0, 1, 2, 3][self.dice.below(5)];
        if self.process.page(kind) {
            return;
        }
        let cursor = match kind {
            0 => &mut self.process.informers.claims.cursor,
            1 => &mut self.process.informers.volumes.cursor,
            2 => &mut self.process.informers.classes.cursor,
            _ => &mut self.process.informers.pods.cursor,
        };
        let (log, is_of) = (&self.server.log, |event: &Event| kind_of(event) == kind);
        if let Some(at) = next_event(&mut self.dice, log, cursor, all, is_of) {
            self.process.observe(&log[at]);
        }
    }

    /// Ends back-offs.
    pub(super) fn retry(&mut self) {
        let seconds = if self.settling {
            400
        } else {
            [1, 100, 400][self.dice.below(3)]
        };
        let attempts = &mut self.process.attempts;
        attempts.wait(seconds);
        attempts.retry_all();
    }

    /// The most interesting kills come right after a patch was sent.
    pub(super) fn send(&mut self) {
        let sent = |running: &Running| match &running.state {
            State::Sent(request) => matches!(request, Request::Write(_)),
            State::Deciding
            | State::Waiting(..)
            | State::Calling(..)
            | State::Answered(..)
            | State::Fenced => false,
        };
        for _ in 0..self.dice.below(24) {
            if self.process.attempts.running.iter().any(sent) {
                return;
            }
            self.work();
        }
    }

    /// The process is killed; whatever it has sent is applied now, later or never.
    pub(super) fn stop(&mut self) {
        let running = std::mem::take(&mut self.process.attempts.running);
        for Running { state, .. } in running {
            let fate = self.dice.below(3);
            match state {
                State::Sent(Request::Write(write)) if fate == 0 => self.late.push(write),
                State::Sent(Request::Write(write)) if fate == 1 => drop(self.write(&write)),
                State::Calling(_, id) => self.driver.abandon(id),
                State::Deciding | State::Sent(_) | State::Answered(..) | State::Fenced => {}
            }
        }
    }

    /// The next process may have other flags, and a driver with other abilities.
    fn crash(&mut self) {
        self.send();
        self.stop();
        if self.restless {
            let (driver, settings) = &mut self.next;
            driver.abilities.modify = !self.dice.one_in(4);
            settings.handle_in_use = !self.dice.one_in(4);
            settings.extra_modify_metadata = self.dice.one_in(4);
            settings.gates.annotate = !self.dice.one_in(4);
            settings.gates.attributes_class = !self.dice.one_in(4);
        }
        self.restart();
    }

    pub(super) fn restart(&mut self) {
        self.take_over();
        self.fill();
    }

    /// The next process leads; returns the former one.
    pub(super) fn take_over(&mut self) -> Process {
        for truth in self.truths.values_mut() {
            truth.told.clear();
            truth.last = Default::default();
            truth.impossible = None;
        }
        let claims: Vec<ClaimDetail> = { self.server.claims.values() }
            .map(|(_, claim)| claim.clone())
            .collect();
        for claim in &claims {
            self.leave_doubt(claim);
        }
        let next = Process::start(&self.server, self.next.clone(), self.mutant);
        std::mem::replace(&mut self.process, next)
    }

    /// Lists often arrive in one page.
    pub(super) fn fill(&mut self) {
        if !self.dice.one_in(3) {
            self.process.fill();
        }
    }

    /// The process that wrote this may have called for it.
    pub(super) fn leave_doubt(&mut self, claim: &ClaimDetail) {
        let modify = claim.modify.as_ref().filter(|_| claim.is_changing());
        let class = modify.map(|modify| modify.target.to_string());
        let truth = self.truth(&claim.uid);
        truth.left_size |= claim.resize == Some(ResizeStatus::ControllerInProgress);
        if class.is_some() {
            truth.left_class = class;
        }
    }

    /// A patch arrives whose caller has given up.
    pub(super) fn arrive_late(&mut self) {
        if self.late.is_empty() {
            return;
        }
        let place = self.dice.below(self.late.len());
        let write = self.late.swap_remove(place);
        if let Ok(Object::Claim(found)) = self.write(&write) {
            self.leave_doubt(&found.1);
        }
    }

    pub(super) fn complain(&mut self, violation: String) {
        self.violation.get_or_insert(violation);
    }

    pub(super) fn truth(&mut self, uid: &crate::model::Uid) -> &mut Truth {
        self.truths.entry(uid.to_string()).or_default()
    }

    /// A call ends whose caller has given up.
    fn end_orphan(&mut self) {
        let orphan = self.driver.running.iter().find(|call| !call.awaited);
        if let Some(id) = orphan.map(|call| call.id) {
            let effect = self.dice.one_in(2);
            self.driver.end(id, effect, 0);
        }
    }

    pub(super) fn pick(&mut self, names: &[Text]) -> Option<Text> {
        let place = self.dice.below(names.len().max(1));
        names.get(place).cloned()
    }
}

fn kind_of(event: &Event) -> usize {
    match event {
        Event::Claim(..) => 0,
        Event::Volume(..) => 1,
        Event::Class(..) => 2,
        Event::Pod(..) => 3,
    }
}
