//! One run: dice decide what happens next, and every change is checked as it happens.

use std::collections::BTreeMap;

use super::Dice;
use super::driver::ModelDriver;
use super::mutant::Mutant;
use super::process::{Process, Running, State};
use super::server::{Event, Server};
use crate::model::Text;
use crate::testing::driver;

/// Which faults a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Faults {
    /// Late watch events only.
    None,
    /// The process stops anywhere, too.
    Crashes,
    /// And requests, calls and watches fail, sizes are impossible, volumes are in use.
    All,
    /// As `All`, with one volume handle for all volumes.
    Aliases,
}

/// What is known of a claim's volume beyond the objects.
#[derive(Default)]
pub(super) struct Truth {
    /// The largest size that a call without final answer may have reached.
    pub(super) size: Option<i64>,
    /// The class of a call without final answer.
    pub(super) class: Option<String>,
    /// How often the user asked for another size, and for another class.
    pub(super) wishes: (u32, u32),
    /// How often the driver was asked.
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
    /// By UID of the claim.
    pub(super) truths: BTreeMap<String, Truth>,
    /// What went wrong first.
    violation: Option<String>,
    /// The end of the run, without faults.
    pub(super) settling: bool,
}

/// Runs the interleaving of `seed`.
pub(super) fn run(seed: u64, faults: Faults, mutant: Mutant) -> Result<(), String> {
    let server = Server::default();
    let process = Process::start(&server, driver(), mutant);
    let mut world = World {
        dice: Dice(seed),
        faults,
        mutant,
        server,
        driver: ModelDriver::default(),
        process,
        truths: BTreeMap::new(),
        violation: None,
        settling: false,
    };
    world.furnish();
    world.process = Process::start(&world.server, driver(), mutant);
    for _ in 0..ACTIONS {
        world.act();
        if let Some(violation) = world.violation.take() {
            return Err(violation);
        }
    }
    world.settle();
    match world.violation.take() {
        Some(violation) => Err(violation),
        None => world.check_rest(),
    }
}

impl World {
    pub(super) fn has_all_faults(&self) -> bool {
        matches!(self.faults, Faults::All | Faults::Aliases)
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
            12 if all => self.end_orphan(),
            _ => self.work(),
        }
    }

    /// One watch brings its next event, or one it brought before, or breaks.
    fn deliver(&mut self) {
        let all = self.has_all_faults();
        if all && self.dice.one_in(12) {
            return self.process.list(&self.server);
        }
        // Claims change most.
        let kind = [0, 0, 1, 2, 3][self.dice.below(5)];
        let cursor = match kind {
            0 => &mut self.process.claims.cursor,
            1 => &mut self.process.volumes.cursor,
            2 => &mut self.process.classes.cursor,
            _ => &mut self.process.pods.cursor,
        };
        let at = match all && *cursor > 0 && self.dice.one_in(4) {
            true => self.dice.below(*cursor),
            false => {
                let log = self.server.log.iter().enumerate().skip(*cursor);
                let mut next = log.filter(|(_, (_, event))| kind_of(event) == kind);
                let Some((at, _)) = next.next() else {
                    return;
                };
                *cursor = at + 1;
                at
            }
        };
        let event = self.server.log.get(at);
        if let Some(event) = event.filter(|(_, event)| kind_of(event) == kind) {
            self.process.observe(event);
        }
    }

    /// Back-offs end.
    pub(super) fn retry(&mut self) {
        let seconds = [1, 100, 400][self.dice.below(3)];
        let process = &mut self.process;
        process.wait(seconds);
        process.ready.append(&mut process.later);
    }

    /// The process ends; what it sent is applied now or never.
    fn crash(&mut self) {
        let running = std::mem::take(&mut self.process.running);
        for Running { task, state, .. } in running {
            let applied = self.dice.one_in(2);
            match state {
                State::Sent(step) if applied => drop(self.apply(&task.claim, &step)),
                State::Calling(_, id) => self.driver.abandon(id),
                State::Deciding | State::Sent(_) | State::Answered(..) => {}
            }
        }
        self.process = Process::start(&self.server, driver(), self.mutant);
    }

    pub(super) fn complain(&mut self, violation: String) {
        self.violation.get_or_insert(violation);
    }

    pub(super) fn truth(&mut self, uid: &crate::model::Uid) -> &mut Truth {
        self.truths.entry(uid.to_string()).or_default()
    }

    /// A call whose caller is gone ends.
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
