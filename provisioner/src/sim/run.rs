//! One run: dice decide what happens next, and every change is checked as it happens.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tonic::Code;

use super::Dice;
use super::driver::ModelDriver;
use super::mutant::Mutant;
use super::process::Process;
use super::server::{Event, Server, refusal};
use crate::model::Text;
use crate::plan::Driver;
use crate::plan::driver::Abilities;
use crate::plan::memory::ClaimKey;
use crate::plan::outcome::{ApiError, Refusal, RpcError};
use crate::plan::settings::{Protection, Settings};
use crate::testing::driver;

/// Which faults a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Faults {
    /// Late watch events only.
    None,
    /// The process is asked to stop anywhere, and requests, calls and watches fail.
    Stops,
    /// The process is killed anywhere, nothing else fails.
    Kills,
    /// All of it.
    All,
}

const ACTIONS: usize = 140;

/// What becomes of a request to the API server.
pub(super) enum Fate {
    Applied,
    /// Applied, and the answer is lost.
    Unheard,
    /// Not applied, and nobody knows.
    Lost,
    Refused,
}

pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) faults: Faults,
    pub(super) protection: Protection,
    pub(super) mutant: Mutant,
    pub(super) server: Server,
    pub(super) driver: ModelDriver,
    pub(super) process: Process,
    pub(super) uids: u64,
    pub(super) clock: Instant,
    /// Names that the driver was asked for, by UID of the claim.
    pub(super) names: BTreeMap<Text, BTreeSet<String>>,
    /// Volumes that the chosen protection allows to be lost.
    pub(super) excused: BTreeSet<String>,
    /// What went wrong first.
    violation: Option<String>,
    /// The end of the run, without faults.
    pub(super) settling: bool,
}

/// Runs the interleaving of `seed`.
pub(super) fn run(
    seed: u64,
    faults: Faults,
    protection: Protection,
    mutant: Mutant,
) -> Result<(), String> {
    let server = Server::default();
    let process = Process::start(&server, able(), settings(mutant, protection), mutant);
    let mut world = World {
        dice: Dice(seed),
        faults,
        protection,
        mutant,
        server,
        driver: ModelDriver::default(),
        process,
        uids: 0,
        clock: Instant::now(),
        names: BTreeMap::new(),
        excused: BTreeSet::new(),
        violation: None,
        settling: false,
    };
    world.put_class(0);
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

pub(super) fn able() -> Driver {
    let fixture = driver();
    Driver {
        abilities: Abilities {
            publish: true,
            ..fixture.abilities
        },
        ..fixture
    }
}

pub(super) fn settings(mutant: Mutant, protection: Protection) -> Settings {
    Settings {
        protection: mutant.protects(protection),
        ..Settings::default()
    }
}

impl World {
    pub(super) fn faulty(&self) -> bool {
        matches!(self.faults, Faults::All | Faults::Stops) && !self.settling
    }

    fn act(&mut self) {
        match self.dice.below(28) {
            0..=2 => self.user(),
            3..=7 => self.deliver(),
            8 | 9 => self.retry(),
            10 if self.faults != Faults::None && self.dice.one_in(3) => self.end_process(),
            11 => self.end_orphan(),
            12 | 13 => {
                self.control();
            }
            _ => self.work(),
        }
    }

    /// Something in the process advances.
    pub(super) fn work(&mut self) {
        let claims = self.process.running.len();
        let volumes = self.process.deleting.len();
        let choice = self.dice.below(claims + volumes + 2);
        if choice < claims {
            self.advance_claim(choice);
        } else if choice < claims + volumes {
            self.advance_volume(choice - claims);
        } else {
            self.begin();
        }
    }

    /// A queued claim or volume gets a worker.
    fn begin(&mut self) {
        let process = &self.process;
        let idle = |key: &&ClaimKey| process.running.iter().all(|running| running.key != **key);
        let claims: Vec<ClaimKey> = process.ready.iter().filter(idle).cloned().collect();
        let idle = |name: &&Text| {
            process
                .deleting
                .iter()
                .all(|deleting| deleting.name != **name)
        };
        let volumes: Vec<Text> = process.ready_volumes.iter().filter(idle).cloned().collect();
        if claims.len() + volumes.len() == 0 {
            return;
        }
        let choice = self.dice.below(claims.len() + volumes.len());
        match claims.get(choice) {
            Some(key) => self.begin_claim(key),
            None => self.begin_volume(&volumes[choice - claims.len()]),
        }
    }

    pub(super) fn fate(&mut self) -> Fate {
        match self.faulty() && self.dice.one_in(5) {
            true => match self.dice.below(3) {
                0 => Fate::Unheard,
                1 => Fate::Lost,
                _ => Fate::Refused,
            },
            false => Fate::Applied,
        }
    }

    /// One watch brings its next event, or one it brought before, or breaks.
    fn deliver(&mut self) {
        let faulty = self.faulty();
        if faulty && self.dice.one_in(12) {
            return self.process.list(&self.server);
        }
        let kind = self.dice.below(4);
        let cursor = self.cursor(kind);
        if faulty && cursor > 0 && self.dice.one_in(4) {
            let at = self.dice.below(cursor);
            if let Some(event) = self.server.log.get(at)
                && kind_of(&event.1) == kind
            {
                self.process.observe(event);
            }
            return;
        }
        let Some(at) = self.next(kind) else {
            return;
        };
        // What was known before a volume's change: see the assumptions.
        let mut first = vec![2];
        first.extend((self.faults == Faults::None).then_some(0));
        for other in first.into_iter().filter(|_| kind == 1) {
            while let Some(before) = self.next(other)
                && before < at
            {
                self.observe(before, other);
            }
        }
        self.observe(at, kind);
    }

    /// Where in the log the next event for this watch is.
    fn next(&mut self, kind: usize) -> Option<usize> {
        let cursor = self.cursor(kind);
        let mut log = self.server.log.iter().enumerate().skip(cursor);
        log.find(|(_, (_, event))| kind_of(event) == kind)
            .map(|(at, _)| at)
    }

    fn observe(&mut self, at: usize, kind: usize) {
        match kind {
            0 => self.process.claims.cursor = at + 1,
            1 => self.process.volumes.cursor = at + 1,
            2 => self.process.attachments.cursor = at + 1,
            _ => self.process.classes.cursor = at + 1,
        }
        self.process.observe(&self.server.log[at]);
    }

    fn cursor(&self, kind: usize) -> usize {
        match kind {
            0 => self.process.claims.cursor,
            1 => self.process.volumes.cursor,
            2 => self.process.attachments.cursor,
            _ => self.process.classes.cursor,
        }
    }

    pub(super) fn retry(&mut self) {
        self.clock += Duration::from_secs(100);
        let process = &mut self.process;
        process.memory.sweep(self.clock);
        process.ready.append(&mut process.later);
        process.ready_volumes.append(&mut process.later_volumes);
    }

    pub(super) fn complain(&mut self, violation: String) {
        self.violation.get_or_insert(violation);
    }

    pub(super) fn has_complaint(&self) -> bool {
        self.violation.is_some()
    }

    /// A call whose caller is gone ends.
    fn end_orphan(&mut self) {
        let orphan = self.driver.running.iter().find(|call| !call.awaited);
        if let Some(id) = orphan.map(|call| call.id) {
            match self.dice.one_in(2) {
                true => {
                    self.driver.succeed(id);
                    self.check_doubles();
                }
                false => {
                    self.driver.fail(id);
                }
            }
        }
    }
}

fn kind_of(event: &Event) -> usize {
    match event {
        Event::Claim(..) => 0,
        Event::Volume(..) => 1,
        Event::Attachment(..) => 2,
        Event::Class(..) => 3,
    }
}

pub(super) fn rpc(code: Code) -> RpcError {
    let message = "simulated".into();
    RpcError { code, message }
}

pub(super) fn refused() -> ApiError {
    refusal(Refusal::Other)
}

pub(super) fn lost() -> ApiError {
    refusal(Refusal::Unknown)
}
