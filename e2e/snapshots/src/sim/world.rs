//! One run, which picks the next action.

use std::collections::BTreeMap;

use serde_json::Value;
use sidecar::text::Text;
use sidecar_testkit::sim::Dice;
use sidecar_testkit::sim::storage::Storage;

use super::controller::Controller;
use super::driver::Groups;
use super::kind::{Kind, Server};
use super::mutant::Mutant;
use super::objects::{claim, class, group_class, secret, volume};
use super::process::{Process, Program};
use super::request::Request;
use super::seen::{Seen, Stamp};
use super::snapshotter::{Both, Grouped, Single, Snapshotter};
use super::window::Windows;

/// The faults of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Faults {
    /// Only late events, in any order of kinds, and a driver that fails as drivers do. Everything that the controller
    /// waits for must wake it: its back-offs never end.
    None,
    /// Also, either program stops at any point, or stands still while another one leads.
    Crashes,
    /// Also, requests and calls fail or lose their answers, watches break, the driver is away or calls snapshots
    /// impossible, and a Secret is missing.
    All,
    /// As `All`, and VolumeSnapshots are removed by force.
    Strips,
}

/// The point at which one of the programs stops.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    pub(super) who: usize,
    /// Number of its steps before.
    pub(super) after: usize,
    /// Whether it stands still instead, while another one leads.
    pub(super) frozen: bool,
}

/// Most requests without time passing.
const SPINS: usize = 600;
/// Most requests of csi-snapshotter for one content without time passing.
const SPINS_FOR_ONE: usize = 60;

pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) faults: Faults,
    pub(super) mutant: Mutant,
    pub(super) server: Server,
    pub(super) storage: Storage,
    pub(super) groups: Groups,
    /// Whether the mutant is faulty about contents of groups only.
    pub(super) about_groups: bool,
    /// Whether users take groups.
    pub(super) grouped: bool,
    /// Whether the snapshotters are older releases, which add no finalizers to contents.
    pub(super) older: bool,
    /// Whether other drivers and other tools use the cluster, too, and the driver lists more than it was asked for.
    pub(super) crowded: bool,
    pub(super) controller: Process<Controller>,
    pub(super) snapshotter: Both,
    /// Former leaders that stand still.
    pub(super) frozen: (Option<Box<Process<Controller>>>, Option<Box<Both>>),
    /// Whether the acting process has lost its lease.
    pub(super) fenced: bool,
    /// Requests under way that nobody waits for any more.
    pub(super) late: Vec<Request>,
    /// Requests under way that arrive before the next process has listed.
    pub(super) soon: Vec<Request>,
    /// Whether the driver is unreachable for now.
    pub(super) away: bool,
    /// Whether faults have ended.
    pub(super) settling: bool,
    /// Steps that each program has made.
    pub(super) steps: [usize; 2],
    pub(super) stop: Option<Stop>,
    pub(super) uids: usize,
    spins: usize,
    /// csi-snapshotter's requests without time passing, by content.
    spins_for: BTreeMap<Text, usize>,
    /// Number of back-offs that ended since the faults did.
    pub(super) retried: usize,
    /// Number of wrong answers about groups that the driver may still give.
    pub(super) slips: usize,
    pub(super) windows: Windows,
    pub(super) seen: Seen,
    violation: Option<String>,
}

/// Runs one seed to its end.
///
/// # Errors
/// The first violation.
pub(super) fn run(seed: u64, faults: Faults, mutant: Mutant) -> Result<Windows, String> {
    begin(World::new(seed, faults, mutant), seed)
}

/// Runs one seed with groups, and with a csi-snapshotter that is faulty about their contents only: so whatever
/// it does wrong, it does to one of those.
///
/// # Errors
/// The first violation.
pub(super) fn run_about_groups(seed: u64, faults: Faults, mutant: Mutant) -> Result<(), String> {
    let mut world = World::new(seed, faults, mutant);
    world.about_groups = true;
    begin(world, seed).map(drop)
}

fn begin(mut world: World, seed: u64) -> Result<Windows, String> {
    let mutant = world.mutant;
    // The mutant determines whether the run needs groups.
    let chance = world.dice.one_in(2);
    world.grouped = world.about_groups || mutant.needs_groups().unwrap_or(chance);
    world.crowded = mutant.needs_crowd().unwrap_or(seed % 2 == 1);
    world.older = world.dice.one_in(4);
    if world.crowded {
        world.furnish_crowd();
    }
    world.snapshotter = world.next_snapshotter();
    let length = 200 + world.dice.below(400);
    for _ in 0..length {
        world.tick();
        world.verdict()?;
    }
    world.rest()
}

impl World {
    pub(super) fn new(seed: u64, faults: Faults, mutant: Mutant) -> Self {
        let mut world = Self {
            dice: Dice::new(seed),
            faults,
            mutant,
            server: Server::default(),
            storage: Storage::default(),
            groups: Groups::default(),
            about_groups: false,
            grouped: false,
            older: false,
            crowded: false,
            controller: Process::start(mutant),
            snapshotter: Both::start(mutant, mutant),
            frozen: (None, None),
            fenced: false,
            late: Vec::new(),
            soon: Vec::new(),
            away: false,
            settling: false,
            steps: [0, 0],
            stop: None,
            uids: 0,
            spins: 0,
            spins_for: BTreeMap::new(),
            retried: 0,
            slips: 0,
            windows: Windows::default(),
            seen: Seen::default(),
            violation: None,
        };
        world.controller.known.backs_off = faults != Faults::None;
        for (kind, object) in [
            (Kind::Class, class("c1")),
            (Kind::Class, class("cr")),
            (Kind::Class, class("cs")),
            (Kind::Secret, secret("sec")),
            (Kind::Volume, volume("pv1", "p1")),
            (Kind::Volume, volume("pv2", "p2")),
            (Kind::Claim, claim("p1", "pv1")),
            (Kind::GroupClass, group_class("g")),
            (Kind::GroupClass, group_class("gr")),
            (Kind::GroupClass, group_class("gs")),
        ] {
            world.add(kind, object);
        }
        world
    }

    pub(super) fn add(&mut self, kind: Kind, object: Value) {
        self.server.create(kind, object).unwrap();
        self.look();
    }

    pub(super) fn complain(&mut self, violation: impl Into<String>) {
        self.violation.get_or_insert(violation.into());
    }

    pub(super) fn complain_if(&mut self, violation: Option<String>) {
        self.violation = self.violation.take().or(violation);
    }

    pub(super) fn verdict(&mut self) -> Result<(), String> {
        self.violation.take().map_or(Ok(()), Err)
    }

    /// Whether requests and calls may fail.
    pub(super) fn is_faulty(&self) -> bool {
        !self.settling && matches!(self.faults, Faults::All | Faults::Strips)
    }

    /// The versions of the server and of storage.
    pub(super) fn stamp(&self) -> Stamp {
        Some((self.server.version, self.storage.stamp()))
    }

    /// Whether this call about a group fails, with a chance of one in `one_in`.
    pub(super) fn slips(&mut self, one_in: usize) -> bool {
        let may = self.is_faulty() || self.slips > 0;
        let slips = may && self.dice.one_in(one_in);
        if slips && self.settling {
            self.slips -= 1;
        }
        slips
    }

    fn tick(&mut self) {
        match self.dice.below(32) {
            0..=8 => self.work::<Controller>(),
            9..=17 => self.work_snapshotter(),
            18..=22 => self.deliver::<Controller>(),
            23..=26 => self.deliver_to_snapshotter(),
            27..=29 => self.users(),
            _ => self.time_goes_on(),
        }
        self.stop_in_last_window();
        self.check();
    }

    /// Advances everything except users.
    pub(super) fn lives(&mut self) {
        match self.dice.below(4) {
            0 => self.work::<Controller>(),
            1 => self.work_snapshotter(),
            2 => self.deliver::<Controller>(),
            _ => self.deliver_to_snapshotter(),
        }
    }

    /// One of the snapshotter's two controllers works.
    pub(super) fn work_snapshotter(&mut self) {
        let turn = self.dice.one_in(2);
        let Both { single, grouped } = &self.snapshotter;
        if grouped.is_busy() && (turn || !single.is_busy()) {
            self.work::<Snapshotter<Grouped>>();
        } else {
            self.work::<Snapshotter<Single>>();
        }
    }

    pub(super) fn deliver_to_snapshotter(&mut self) {
        let turn = self.dice.one_in(2);
        let single = self.snapshotter.single.known.news(&self.server);
        let grouped = self.snapshotter.grouped.known.news(&self.server);
        if turn && !single.is_empty() || grouped.is_empty() {
            self.deliver::<Snapshotter<Single>>();
        } else {
            self.deliver::<Snapshotter<Grouped>>();
        }
    }

    /// Advances something in a program.
    pub(super) fn work<P: Program>(&mut self) {
        if !P::of(self).known.is_synced() {
            return self.deliver::<P>();
        }
        let startable = P::of(self).attempts.startable();
        let running = P::of(self).attempts.running.len();
        if running < 3 && !startable.is_empty() && (running == 0 || self.dice.one_in(3)) {
            let key = self.dice.of(&startable).clone();
            P::of(self).begin(&key);
        } else if running > 0 {
            let index = self.dice.below(running);
            self.advance::<P>(index);
        }
    }

    /// Lists one kind, or delivers its next event.
    pub(super) fn deliver<P: Program>(&mut self) {
        // Requests of a former process that must not arrive later.
        for request in std::mem::take(&mut self.soon) {
            if self.dice.one_in(2) {
                drop(self.applies(&request));
            }
        }
        let breaks = self.is_faulty() && self.dice.one_in(40);
        let server = std::mem::take(&mut self.server);
        let news = P::of(self).known.news(&server);
        let kind = if breaks || news.is_empty() {
            *self.dice.of(P::WATCHED)
        } else {
            *self.dice.of(&news)
        };
        P::of(self).watch(kind, &server, breaks);
        self.server = server;
        self.hear_warnings();
    }

    /// Back-offs end, old requests arrive, orphaned calls end, a program stops.
    fn time_goes_on(&mut self) {
        let seconds = *self.dice.of(&[1, 20, 400]);
        self.passes(seconds);
        // For this mutant they arrive during a call.
        let during_calls = self.mutant == Mutant::TakesNothingOver;
        if !self.late.is_empty() && !during_calls {
            let index = self.dice.below(self.late.len());
            let request = self.late.swap_remove(index);
            if self.dice.one_in(2) {
                drop(self.applies(&request));
            }
        }
        self.collect_garbage();
        if self.dice.one_in(2) {
            self.end_orphan();
        }
        if self.is_faulty() && self.dice.one_in(3) {
            self.forget();
        }
        if self.faults == Faults::None {
            return;
        }
        match self.dice.below(10) {
            0 | 1 => {
                self.come_to_write::<Controller>();
                self.crash_controller();
            }
            2 | 3 => {
                if self.grouped && self.dice.one_in(2) {
                    self.come_to_write::<Snapshotter<Grouped>>();
                } else {
                    self.come_to_write::<Snapshotter<Single>>();
                }
                self.crash_snapshotter();
            }
            4 | 5 => {
                // A freeze matters during a call, or right before it.
                if self.dice.one_in(2) {
                    self.come_to_write::<Snapshotter<Single>>();
                }
                self.freeze_or_thaw();
            }
            _ => {}
        }
    }

    /// Works on until a step has an effect: stops right after that matter most.
    fn come_to_write<P: Program>(&mut self) {
        for _ in 0..self.dice.below(60) {
            if P::of(self)
                .attempts
                .running
                .iter()
                .any(|one| one.note.last.is_some())
                && self.dice.one_in(4)
            {
                return;
            }
            if P::of(self).is_busy() {
                self.work::<P>()
            } else {
                self.deliver::<P>()
            }
        }
    }

    pub(super) fn passes(&mut self, seconds: u64) {
        self.spins = 0;
        self.spins_for.clear();
        self.controller.attempts.wait(seconds);
        self.snapshotter.wait(seconds);
    }

    /// Counts a request: many without time passing are a violation.
    pub(super) fn spin(&mut self) {
        self.spins += 1;
        if self.spins > SPINS {
            self.complain("requests without end");
        }
    }

    /// Counts csi-snapshotter's requests for a content in the same way.
    pub(super) fn spin_for(&mut self, content: &Text) {
        let spins = self.spins_for.entry(content.clone()).or_default();
        *spins += 1;
        if *spins > SPINS_FOR_ONE {
            self.complain(format!("requests without end for {content}"));
        }
    }

    /// The VolumeSnapshot with this UID.
    pub(super) fn snapshot(&self, uid: &str) -> Option<&Value> {
        let mut all = self.server.all(Kind::Snapshot);
        all.find_map(|(_, snapshot)| (snapshot["metadata"]["uid"] == uid).then_some(snapshot))
    }
}
