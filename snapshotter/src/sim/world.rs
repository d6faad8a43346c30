//! One run: dice pick the next action, and each change is checked as it happens.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use sidecar_testkit::sim::storage::Storage;
use sidecar_testkit::sim::watch::next_event;

use super::Dice;
use super::mutant::Mutant;
use super::process::{Process, Running, State};
use crate::model::{Content, Kind, Text};
use crate::plan::request::{Request, Write};
use crate::testing::{Event, Server};

/// The faults of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Faults {
    /// Watch events are late, nothing else.
    None,
    /// Also, the process stops anywhere.
    Crashes,
    /// Also, requests, calls and watches fail, snapshots are impossible, the driver is away.
    All,
    /// As `All`, and whatever is impossible or missing stays so.
    Lasting,
}

/// Facts about a content beyond the objects.
#[derive(Default)]
pub(super) struct Truth {
    /// Requests and calls since time passed or anything changed.
    pub(super) effort: u32,
    /// Number of calls to create its snapshot, and of answers that it is not ready.
    pub(super) calls: (u32, u32),
    /// Number of answers that came when nobody wanted the snapshot to become ready any more.
    pub(super) unwanted: u32,
    /// When the driver last called its snapshot impossible.
    pub(super) impossible: Option<Instant>,
    /// Whether a lookup showed the process that its snapshot exists.
    pub(super) found: bool,
}

const ACTIONS: usize = 140;

pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) faults: Faults,
    pub(super) mutant: Mutant,
    /// The kind of all contents.
    pub(super) kind: Kind,
    pub(super) server: Server,
    pub(super) driver: Storage,
    pub(super) process: Process,
    /// A former leader that stands still.
    pub(super) frozen: Option<Box<Process>>,
    /// Whether `process` is a former leader that goes on.
    pub(super) thawed: bool,
    /// Patches under way that nobody waits for any more.
    pub(super) late: Vec<Write>,
    /// Facts by name of the content.
    pub(super) truths: BTreeMap<Text, Truth>,
    /// Snapshots that outlive their contents: names, and handles of those that existed before.
    pub(super) kept: BTreeSet<Text>,
    /// The last handle of each content before its status was cleared, by name of the content.
    pub(super) cleared: BTreeMap<Text, Text>,
    /// Names of snapshots that the driver reported and then lost.
    pub(super) forgotten: BTreeSet<String>,
    /// Number of contents created so far.
    pub(super) born: usize,
    /// The first violation.
    violation: Option<String>,
    /// Whether the run has many faults. Only some have, since fewer faults let others get further.
    pub(super) stormy: bool,
    /// Whether the run ends, without faults.
    pub(super) settling: bool,
}

/// Runs the interleaving of `seed` with contents of this kind.
pub(super) fn run(seed: u64, kind: Kind, faults: Faults, mutant: Mutant) -> Result<(), String> {
    let server = Server::default();
    let process = Process::start(&server, mutant);
    let mut world = World {
        dice: Dice::new(seed),
        faults,
        mutant,
        kind,
        server,
        driver: Storage::default(),
        process,
        frozen: None,
        thawed: false,
        late: Vec::new(),
        truths: BTreeMap::new(),
        kept: BTreeSet::new(),
        cleared: BTreeMap::new(),
        forgotten: BTreeSet::new(),
        born: 0,
        violation: None,
        stormy: false,
        settling: false,
    };
    world.stormy = world.has_all_faults() && world.dice.one_in(3);
    world.furnish();
    world.restart();
    for _ in 0..ACTIONS {
        world.act();
        world.check_storage();
        world.verdict()?;
    }
    world.settle();
    world.verdict()?;
    world.check_rest()?;
    world.leave();
    world.verdict()?;
    world.check_left()
}

impl World {
    fn verdict(&mut self) -> Result<(), String> {
        self.violation.take().map_or(Ok(()), Err)
    }

    pub(super) fn complain(&mut self, violation: String) {
        self.violation.get_or_insert(violation);
    }

    pub(super) fn has_all_faults(&self) -> bool {
        matches!(self.faults, Faults::All | Faults::Lasting)
    }

    fn act(&mut self) {
        let (all, crashes) = (self.has_all_faults(), self.faults != Faults::None);
        match self.dice.below(24) {
            0..=3 => self.people(),
            4 => self.surroundings(),
            5..=9 => self.deliver(),
            10 => self.retry(),
            11 if crashes && (self.stormy || self.dice.one_in(4)) => self.crash(),
            12 if crashes && self.dice.one_in(3) => self.freeze_or_thaw(),
            13 if all => self.end_orphan(),
            14 if crashes => self.arrive_late(),
            15 if self.stormy => self.arrive_late(),
            _ => return self.work(),
        }
        self.rest_truths();
    }

    pub(super) fn rest_truths(&mut self) {
        for truth in self.truths.values_mut() {
            truth.effort = 0;
        }
    }

    /// A watch delivers its next event, repeats an earlier one, or breaks.
    fn deliver(&mut self) {
        let all = self.has_all_faults();
        if all && self.dice.one_in(12) {
            self.process.relist(&self.server);
            return self.fill();
        }
        let contents = !self.dice.one_in(4);
        if self.process.page(contents) {
            return self.begin_anew();
        }
        let cursor = if contents {
            &mut self.process.known.contents.cursor
        } else {
            &mut self.process.known.classes.cursor
        };
        let is_of = |event: &Event| matches!(event, Event::Content(..)) == contents;
        let log = &self.server.log;
        if let Some(at) = next_event(&mut self.dice, log, cursor, all, is_of) {
            self.process.observe(&log[at]);
            self.begin_anew();
        }
    }

    /// Lets back-offs end.
    pub(super) fn retry(&mut self) {
        let seconds = if self.settling {
            400
        } else {
            [1, 20, 400][self.dice.below(3)]
        };
        self.process.wait(seconds);
    }

    /// Works on until a patch is under way: stops right after that matter most.
    pub(super) fn send(&mut self) {
        let sent = |running: &Running| matches!(running.state, State::Sent(Request::Write(_)));
        for _ in 0..self.dice.below(24) {
            if self.process.attempts.running.iter().any(sent) {
                return;
            }
            self.work();
        }
    }

    /// Ends the process; its requests are applied now, later or never.
    pub(super) fn stop(&mut self) {
        let running = std::mem::take(&mut self.process.attempts.running);
        for Running { state, .. } in running {
            match state {
                State::Sent(request) => match (request, self.dice.below(3)) {
                    (Request::Write(write), 0) => self.late.push(write),
                    (Request::Write(write), 1) => drop(self.write(&write)),
                    (_, _) => {}
                },
                State::Calling(_, id) => self.driver.abandon(id),
                State::Deciding | State::Answered(..) | State::Fenced => {}
            }
        }
    }

    fn crash(&mut self) {
        self.send();
        self.stop();
        self.restart();
    }

    pub(super) fn restart(&mut self) {
        self.take_over();
        self.fill();
    }

    /// Starts the next leader; returns the former one.
    pub(super) fn take_over(&mut self) -> Process {
        for truth in self.truths.values_mut() {
            (truth.impossible, truth.found) = (None, false);
        }
        let next = Process::start(&self.server, self.mutant);
        std::mem::replace(&mut self.process, next)
    }

    /// Fills the caches: lists often have one page.
    pub(super) fn fill(&mut self) {
        if !self.dice.one_in(3) {
            self.process.fill();
        }
        self.begin_anew();
    }

    /// Woken contents may be requested again, whatever the driver said.
    pub(super) fn begin_anew(&mut self) {
        for name in std::mem::take(&mut self.process.woken) {
            self.truth(&name).impossible = None;
        }
    }

    /// A patch that nobody waits for arrives.
    pub(super) fn arrive_late(&mut self) {
        if self.late.is_empty() {
            return;
        }
        let place = self.dice.below(self.late.len());
        let write = self.late.swap_remove(place);
        drop(self.write(&write));
    }

    /// A call whose caller is gone ends.
    fn end_orphan(&mut self) {
        let orphan = self.driver.running.iter().find(|call| !call.awaited);
        if let Some(id) = orphan.map(|call| call.id) {
            let (effect, taken) = (self.dice.one_in(2), self.taken());
            self.driver.end(id, effect, taken);
        }
    }

    /// Size of a new snapshot, and how many answers report it as not ready.
    pub(super) fn taken(&mut self) -> (i64, usize) {
        let unready = [0, 0, 1, 3][self.dice.below(4)];
        (i64::try_from(self.dice.below(4)).unwrap(), unready)
    }

    pub(super) fn truth(&mut self, name: &Text) -> &mut Truth {
        self.truths.entry(name.clone()).or_default()
    }

    pub(super) fn pick(&mut self, wanted: impl Fn(&Content) -> bool) -> Option<Text> {
        let contents = self.server.contents.iter();
        let fitting = contents.filter(|(_, (_, content))| wanted(content));
        let names: Vec<Text> = fitting.map(|(name, _)| name.clone()).collect();
        let place = self.dice.below(names.len().max(1));
        names.get(place).cloned()
    }
}
