//! One run: dice choose the next action, and every change is checked as it happens.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use sidecar_testkit::sim::fate::Fate;
use tonic::Code;

use super::Dice;
use super::driver::ModelDriver;
use super::freeze::Late;
use super::mutant::Mutant;
use super::process::Process;
use super::scene::Scene;
use super::server::{Server, refusal};
use crate::model::Text;
use crate::plan::journal::Rival;
use crate::plan::outcome::{ApiError, Refusal, RpcError};
use crate::plan::request::Write;
use crate::plan::settings::Protection;

/// The faults of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Faults {
    /// Late watch events only.
    None,
    /// The process is asked to stop anywhere, and requests, calls and watches fail.
    Stops,
    /// The process is killed anywhere, nothing else fails.
    Kills,
    /// All of these faults.
    All,
}

/// The kind of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) faults: Faults,
    pub(super) protection: Protection,
    pub(super) scene: Scene,
}

const ACTIONS: usize = 140;
/// Enough steps for a few attempts.
const HURRY: usize = 60;
/// Enough steps for an attempt whose answer is lost, the next one, and one too many.
const STALL: usize = 150;

/// A provisioner and its driver.
pub(super) struct Site {
    process: Process,
    pub(super) driver: ModelDriver,
}

pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) case: Case,
    pub(super) mutant: Mutant,
    /// `--strict-topology`
    pub(super) strict: bool,
    pub(super) server: Server,
    pub(super) driver: ModelDriver,
    pub(super) process: Process,
    /// Node deployment: the provisioner of the other node, which takes turns with this one.
    pub(super) other: Option<Box<Site>>,
    /// A process that does not know that another one leads.
    pub(super) frozen: Option<Box<Process>>,
    /// The working process is such a process.
    pub(super) thawed: bool,
    /// A process that has lost the journal, and waits until the working one is silent.
    pub(super) waiting: Option<Rival>,
    /// Requests of dead processes that are not applied yet.
    pub(super) late: Vec<Late>,
    /// Removals of a finalizer that are not applied yet.
    pub(super) removals: Vec<Write>,
    /// Number of log entries that another driver's provisioner has seen.
    pub(super) looked: usize,
    pub(super) uids: u64,
    pub(super) clock: Instant,
    /// Volume names in requests, by UID of the claim.
    pub(super) names: BTreeMap<Text, BTreeSet<String>>,
    /// Number of times that a site has made a CreateVolume request since it last had to wait, or learnt anything.
    pub(super) asked: BTreeMap<(usize, String), u32>,
    /// Volumes that the chosen protection allows to be lost, or that users gave up.
    pub(super) excused: BTreeSet<String>,
    /// Topologies of nodes that were gone.
    pub(super) away: BTreeSet<String>,
    /// Sites and names of volumes that their driver refused to know of, or makes to be deleted.
    pub(super) unseen: BTreeSet<(usize, String)>,
    /// The first violation.
    violation: Option<String>,
    /// The end of the run, without faults.
    pub(super) settling: bool,
}

/// Runs the interleaving of `seed`.
pub(super) fn run(seed: u64, case: Case, mutant: Mutant) -> Result<(), String> {
    let strict = seed.is_multiple_of(2);
    let server = Server::default();
    let process = |site| Process::start(&server, case, mutant, site, (strict, site as u64));
    let names = case.scene.names(case.protection, seed);
    // In PersistentVolumes of a plugin handles are compared by their meaning.
    let spells = case.scene != Scene::Moved && seed % 4 == 1;
    let driver = |site| ModelDriver::new(site, (names, spells));
    let site = |site| Site {
        process: process(site),
        driver: driver(site),
    };
    let other = case.scene.is_node_deployment().then(|| Box::new(site(1)));
    let (process, driver) = (process(0), driver(0));
    let mut world = World {
        dice: Dice::new(seed),
        case,
        mutant,
        strict,
        server,
        driver,
        process,
        other,
        frozen: None,
        thawed: false,
        waiting: None,
        late: Vec::new(),
        removals: Vec::new(),
        looked: 0,
        uids: 2,
        clock: Instant::now(),
        names: BTreeMap::new(),
        asked: BTreeMap::new(),
        excused: BTreeSet::new(),
        away: BTreeSet::new(),
        unseen: BTreeSet::new(),
        violation: None,
        settling: false,
    };
    world.furnish();
    // Most processes find their journal as soon as they look for it.
    for _ in 0..world.sites() {
        world.turn();
        if world.journals() && world.dice.one_in(2) {
            world.flush_journal();
        }
    }
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
    pub(super) fn faulty(&self) -> bool {
        matches!(self.case.faults, Faults::All | Faults::Stops) && !self.settling
    }

    /// Creates the initial objects.
    fn furnish(&mut self) {
        let number = self.dice.below(self.case.scene.classes());
        self.put_class(number);
        self.server.secret = true;
        for node in self.case.scene.nodes() {
            self.put_node(node, true);
        }
        if self.case.scene == Scene::Sources {
            self.furnish_source();
            self.process.list(&self.server);
        }
    }

    fn act(&mut self) {
        if self.dice.one_in(2) {
            self.turn();
        }
        self.server.seconds += i64::from(self.dice.one_in(3));
        if self.case.scene == Scene::Sources && self.dice.one_in(8) {
            self.others_remove();
        }
        match self.dice.below(28) {
            0..=2 => self.user(),
            3..=7 => self.deliver(),
            8 | 9 => self.retry(),
            10 if self.case.faults != Faults::None && self.dice.one_in(3) => {
                if self.may_freeze() && self.dice.one_in(2) {
                    self.freeze()
                } else {
                    self.end_process()
                }
            }
            10 if self.frozen.is_some() => self.thaw(),
            10 if self.waiting.is_some() && self.dice.one_in(2) => self.wait_for_silence(),
            10 => self.apply_late(),
            11 if self.dice.one_in(8) => self.administrate(),
            11 => self.end_orphan(),
            12 if self.may_stall() && self.dice.one_in(2) => self.stall(),
            12 if self.faulty() && self.dice.one_in(4) => self.hurry(),
            12 | 13 => {
                self.control();
            }
            _ => self.work(),
        }
    }

    /// Does many steps during which no watch delivers anything.
    fn hurry(&mut self) {
        for _ in 0..HURRY {
            self.work();
        }
    }

    /// The other provisioner does many steps before it gets any events.
    pub(super) fn race(&mut self) {
        self.turn();
        for _ in 0..2 {
            self.retry();
            self.hurry();
        }
        self.turn();
    }

    /// Whether the requests of a claim change with classes and nodes, and no journal keeps them: then a process that
    /// forgets its reads sends another request under the same name.
    fn may_stall(&self) -> bool {
        self.faulty() && self.case.scene == Scene::Topology && !self.journals()
    }

    /// The watch of volumes stands still for a while; everything else goes on.
    fn stall(&mut self) {
        for _ in 0..STALL {
            match self.dice.below(8) {
                0 => {
                    let kind = [0, 3, 4][self.dice.below(3)];
                    self.deliver_next(kind);
                }
                1 if self.dice.one_in(3) => self.retry(),
                2 if self.dice.one_in(6) => {
                    let number = self.dice.below(self.case.scene.classes());
                    self.set_class(number);
                    // Waiting claims get a node now.
                    self.control_all();
                }
                3 if self.dice.one_in(3) => self.user(),
                _ => self.work(),
            }
        }
    }

    /// Switches to the other provisioner, if there is one.
    pub(super) fn turn(&mut self) {
        if let Some(other) = &mut self.other {
            std::mem::swap(&mut other.process, &mut self.process);
            std::mem::swap(&mut other.driver, &mut self.driver);
        }
    }

    pub(super) fn sites(&self) -> usize {
        1 + usize::from(self.other.is_some())
    }

    pub(super) fn drivers(&self) -> impl Iterator<Item = &ModelDriver> {
        let other = self.other.iter().map(|other| &other.driver);
        std::iter::once(&self.driver).chain(other)
    }

    pub(super) fn processes(&self) -> impl Iterator<Item = &Process> {
        let other = self.other.iter().map(|other| &other.process);
        std::iter::once(&self.process).chain(other)
    }

    pub(super) fn fate(&mut self) -> Fate {
        if self.faulty() {
            Fate::draw(&mut self.dice, 5, &Fate::AWAITED)
        } else {
            Fate::Applied
        }
    }

    /// Advances the clock by 100 seconds and retries everything that waits for a retry.
    pub(super) fn retry(&mut self) {
        self.clock += Duration::from_secs(100);
        self.server.seconds += 100;
        self.asked.clear();
        if std::mem::take(&mut self.process.follows) {
            self.observe_attachments();
        }
        let process = &mut self.process;
        process.attempts.reactor.sweep(self.clock);
        process.attempts.retry_all();
        if self.case.scene == Scene::Sources && self.dice.one_in(3) {
            self.sweep();
        }
    }

    pub(super) fn complain(&mut self, violation: String) {
        self.violation.get_or_insert(violation);
    }

    pub(super) fn has_complaint(&self) -> bool {
        self.violation.is_some()
    }

    /// Ends a call whose caller is gone.
    fn end_orphan(&mut self) {
        let orphan = self.driver.running.iter().find(|call| !call.awaited);
        if let Some(id) = orphan.map(|call| call.id) {
            if self.dice.one_in(2) && self.obstacle(id).is_none() {
                self.driver.succeed(id);
                self.check_doubles();
            } else {
                self.driver.fail(id);
            }
        }
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
