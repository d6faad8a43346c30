//! One run: what happens next.

use std::collections::{BTreeMap, BTreeSet};

use super::Dice;
use super::mutant::Mutant;
use super::process::{Process, State, WATCHED};
use super::sidecar::Sidecar;
use super::step::comes_in_order;
use crate::plan::request::{Request, Write};
use crate::testing::objects::{class, group_class, labelled};
use crate::testing::server::{Kind, Server};

/// What may go wrong in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Faults {
    /// Nothing, but that events come late and in any order of kinds.
    None,
    /// The process stops at any point.
    Crashes,
    /// That, requests that fail or whose answers are lost, broken watches, and people who delete what
    /// they should not.
    All,
    /// The same, and VolumeSnapshots that are taken away by force.
    Strips,
}

/// More requests without time going on than any run needs.
const SPINS: usize = 600;

pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) faults: Faults,
    pub(super) server: Server,
    pub(super) process: Process,
    pub(super) sidecar: Sidecar,
    /// What a process that is gone, or one that does not wait any longer, has sent.
    pub(super) late: Vec<Write>,
    /// The same, of what arrives before the next process has listed.
    soon: Vec<Write>,
    /// Whether faults have ended.
    pub(super) settling: bool,
    /// Contents made, by UID of their VolumeSnapshot.
    pub(super) made: BTreeMap<String, usize>,
    /// UIDs of VolumeSnapshots whose content people took away.
    pub(super) robbed: BTreeSet<String>,
    /// UIDs of VolumeSnapshots that were taken away by force.
    pub(super) stripped: BTreeSet<String>,
    /// UIDs of members that were cut loose from their group.
    pub(super) loose: BTreeSet<String>,
    pub(super) uids: usize,
    pub(super) spins: usize,
    /// How often back-offs have passed since faults ended.
    pub(super) retried: usize,
    pub(super) violation: Option<String>,
}

/// One run to its end.
///
/// # Errors
/// What was violated first.
pub(super) fn run(seed: u64, faults: Faults, mutant: Mutant) -> Result<(), String> {
    let mut world = World::new(seed, faults, mutant);
    let length = 80 + world.dice.below(220);
    for _ in 0..length {
        world.tick();
        world.verdict()?;
    }
    world.rest()
}

impl World {
    fn new(seed: u64, faults: Faults, mutant: Mutant) -> Self {
        let mut world = Self {
            dice: Dice::new(seed),
            faults,
            server: Server::default(),
            process: Process::start(mutant, true),
            sidecar: Sidecar::default(),
            late: Vec::new(),
            soon: Vec::new(),
            settling: false,
            made: BTreeMap::new(),
            robbed: BTreeSet::new(),
            stripped: BTreeSet::new(),
            loose: BTreeSet::new(),
            uids: 0,
            spins: 0,
            retried: 0,
            violation: None,
        };
        let mut kept = class("cr", "T");
        kept["deletionPolicy"] = "Retain".into();
        let mut kept_group = group_class("gr", "T");
        kept_group["deletionPolicy"] = "Retain".into();
        for (kind, object) in [
            (Kind::Class, class("c1", "T")),
            (Kind::Class, kept),
            (Kind::GroupClass, group_class("g", "T")),
            (Kind::GroupClass, kept_group),
            (Kind::Volume, labelled("p1", "pv1", "vol-1").1),
            (Kind::Volume, labelled("p2", "pv2", "vol-2").1),
            (Kind::Claim, labelled("p1", "pv1", "vol-1").0),
        ] {
            world.server.create(kind, object).unwrap();
        }
        world
    }

    pub(super) fn complain(&mut self, violation: impl Into<String>) {
        self.violation.get_or_insert(violation.into());
    }

    pub(super) fn verdict(&mut self) -> Result<(), String> {
        self.violation.take().map_or(Ok(()), Err)
    }

    /// Whether requests may fail.
    pub(super) fn is_faulty(&self) -> bool {
        !self.settling && matches!(self.faults, Faults::All | Faults::Strips)
    }

    fn tick(&mut self) {
        match self.dice.below(12) {
            0..=4 => self.work(),
            5 | 6 => self.deliver(),
            7 | 8 => self.people(),
            9 | 10 => {
                self.sidecar_works();
            }
            _ => self.time_goes_on(),
        }
    }

    /// Something in the process advances.
    pub(super) fn work(&mut self) {
        if !self.process.is_synced() {
            return self.deliver();
        }
        let startable = self.process.attempts.startable();
        let running = self.process.attempts.running.len();
        if running < 4 && !startable.is_empty() && (running == 0 || self.dice.one_in(3)) {
            let key = self.dice.of(&startable).clone();
            self.process.begin(&key);
        } else if running > 0 {
            let index = self.dice.below(running);
            self.advance(index);
        }
    }

    /// One kind is listed, or its next event arrives.
    pub(super) fn deliver(&mut self) {
        // Whatever a process before has sent that must not come later.
        for write in std::mem::take(&mut self.soon) {
            if self.dice.one_in(2) {
                self.applies(&write);
            }
        }
        let kind = *self.dice.of(&WATCHED);
        let breaks = self.is_faulty() && self.dice.one_in(40);
        self.process.watch(kind, &self.server, breaks);
        self.hear_warnings();
    }

    /// Back-offs pass, old requests arrive, the process stops.
    fn time_goes_on(&mut self) {
        self.spins = 0;
        if self.faults != Faults::None {
            self.process.attempts.retry_all();
        }
        if !self.late.is_empty() {
            let index = self.dice.below(self.late.len());
            let write = self.late.swap_remove(index);
            if self.dice.one_in(2) {
                self.applies(&write);
            }
        }
        if self.faults != Faults::None && self.dice.one_in(4) {
            self.crash();
        }
        if self.faults != Faults::None && self.dice.one_in(6) {
            self.sidecar.crash();
        }
    }

    /// The process is no more, and another one begins, which somebody may have told to serve no groups.
    fn crash(&mut self) {
        let groups = !self.dice.one_in(5);
        self.begins_anew(groups);
    }

    pub(super) fn begins_anew(&mut self, groups: bool) {
        let mutant = self.process.known.mutant;
        let died = std::mem::replace(&mut self.process, Process::start(mutant, groups));
        for running in died.attempts.running {
            let State::Sent(Request::Write(write)) = running.state else {
                continue;
            };
            match (self.dice.below(3), comes_in_order(&write)) {
                (0, _) => {}
                (1, _) => self.applies(&write),
                (_, true) => self.soon.push(write),
                (_, false) => self.late.push(write),
            }
        }
    }

    /// A request that nobody waits for is applied.
    fn applies(&mut self, write: &Write) {
        drop(self.write(write));
    }

    /// A request is sent: not again and again while no time goes on.
    pub(super) fn spin(&mut self) {
        self.spins += 1;
        if self.spins > SPINS {
            self.complain("requests without end");
        }
    }
}
