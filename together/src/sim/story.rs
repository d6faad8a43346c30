//! The events of a story.

use std::time::{Duration, Instant};

use sidecar::duration::GoDuration;
use sidecar::election::Timing;
use sidecar_testkit::sim::Dice;

use super::mutant::Mutant;
use super::quiet;
use super::replica::{Kind, Replica};
use super::world::{Server, at};

/// Settings of a story.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    /// Factor by which all leases but the head are renewed less often.
    pub(super) pace: u32,
    /// Whether single sidecars go by the lease duration in their own flags.
    pub(super) own_duration: bool,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            pace: 1,
            own_duration: false,
        }
    }
}

/// Statistics that tell whether a run was meaningful.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    /// Number of controllers that could act, summed over all steps.
    pub(super) at_work: usize,
    /// Number of times that a process of several controllers started to work at its head.
    pub(super) heads: usize,
    /// Number of leases that changed hands without being released.
    pub(super) taken: usize,
    /// Number of those that were taken at once.
    pub(super) inherited: usize,
}

impl Figures {
    pub(super) fn add(&mut self, other: Self) {
        self.at_work += other.at_work;
        self.heads += other.heads;
        self.taken += other.taken;
        self.inherited += other.inherited;
    }
}

#[derive(Debug)]
pub(super) struct Story {
    pub(super) dice: Dice,
    start: Instant,
    passed: Duration,
    pub(super) controllers: usize,
    pub(super) server: Server,
    kinds: Vec<Kind>,
    pub(super) replicas: Vec<Option<Replica>>,
    figures: Figures,
    head_worked: Vec<bool>,
}

/// client-go's defaults.
pub(super) fn timing() -> Option<Timing> {
    let seconds = |seconds: i64| GoDuration::from_nanos(seconds * 1_000_000_000);
    Timing::new(seconds(15), seconds(10), seconds(5)).ok()
}

impl Story {
    pub(super) fn new(seed: u64, mutant: Mutant, setting: Setting) -> Option<Self> {
        let mut dice = Dice::new(seed);
        let (controllers, timing) = (2 + dice.below(2), timing()?);
        let every: Vec<usize> = (0..controllers).collect();
        let kind = |host, controllers, together| Kind {
            host,
            controllers,
            together,
            timing,
            pace: if together { setting.pace } else { 1 },
            own_duration: (setting.own_duration && !together).then_some(15),
            speed: 1000,
            mutant,
        };
        // One in four rolling updates changes the controllers, and with them the head.
        let later = if dice.one_in(4) {
            &every[1..]
        } else {
            &every[..]
        };
        let mut kinds = vec![
            kind("pod-a", every.clone(), true),
            kind("pod-b", later.to_vec(), true),
        ];
        for of in &every {
            // A single sidecar left behind in the pod of a process of several controllers.
            kinds.push(kind("pod-a", vec![*of], false));
            kinds.push(kind("pod-c", vec![*of], false));
        }
        for kind in &mut kinds {
            kind.speed = 950 + dice.below(101) as u64;
        }
        let mut begun = |kind: &Kind| {
            let begins = !dice.one_in(4) && (kind.together || dice.one_in(3));
            begins.then(|| Replica::new(kind.clone()))
        };
        let replicas: Vec<_> = kinds.iter().map(&mut begun).collect();
        Some(Self {
            dice,
            start: Instant::now(),
            passed: Duration::ZERO,
            controllers,
            server: Server::new(controllers),
            head_worked: vec![false; replicas.len()],
            replicas,
            kinds,
            figures: Figures::default(),
        })
    }

    pub(super) fn now(&self, who: usize) -> Instant {
        at(self.start, self.passed, self.kinds[who].speed)
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.passed += time;
    }

    pub(super) fn begin(&mut self, who: usize) {
        if self.replicas[who].is_none() {
            self.replicas[who] = Some(Replica::new(self.kinds[who].clone()));
        }
    }

    pub(super) fn kill(&mut self, who: usize) {
        if let Some(replica) = self.replicas[who].take() {
            replica.kill(&mut self.server);
        }
    }

    /// Something happens to one of the processes.
    fn happen(&mut self) {
        match self.dice.below(100) {
            0..4 => {
                let leap = if self.dice.one_in(12) { 20_000 } else { 2_000 };
                let millis = self.dice.below(leap) as u64;
                self.pass(Duration::from_millis(millis));
            }
            4 => {
                let late = self.dice.below(8);
                if late < self.server.late.len() {
                    let (of, write) = self.server.late.remove(late);
                    self.server.write(of, &write);
                }
            }
            5 => {
                let of = self.dice.below(self.controllers);
                if self.dice.one_in(10) {
                    self.server.edit(of, 75);
                }
            }
            6 => {
                let all = self.dice.one_in(2);
                let kinds = if all { self.kinds.len() } else { 2 };
                let who = self.dice.below(kinds);
                self.begin(who);
            }
            _ => {
                let running = |who: &usize| self.replicas[*who].is_some();
                let running: Vec<_> = (0..self.kinds.len()).filter(running).collect();
                if !running.is_empty() {
                    let who = *self.dice.of(&running);
                    self.happen_to(who);
                }
            }
        }
    }

    fn happen_to(&mut self, who: usize) {
        let now = self.now(who);
        let Some(replica) = &mut self.replicas[who] else {
            return;
        };
        let place = self.dice.below(replica.places());
        let server = &mut self.server;
        match self.dice.below(480) {
            0..450 => {
                if self.dice.one_in(2) {
                    replica.step(server, now);
                }
                for place in 0..replica.places() {
                    // Each of these may be skipped, and an earlier request may be answered now.
                    match self.dice.below(8) {
                        0..3 => replica.act(place, now),
                        3 => replica.stop(place),
                        _ => {}
                    }
                    match self.dice.below(8) {
                        0..4 => replica.arrive(place, server),
                        4..6 => {
                            replica.arrive(place, server);
                            replica.answer(place, server, now, 0.0);
                        }
                        6 => replica.answer(place, server, now, 0.0),
                        _ => {}
                    }
                }
            }
            450..454 => replica.give_up(place, server, now),
            454..457 => replica.frozen = true,
            457..463 => replica.frozen = false,
            463..465 => replica.end(),
            465 if self.dice.one_in(2) => replica.rest(),
            466..468 => replica.go_on(),
            468..470 => self.kill(who),
            _ => {}
        }
        let ended = self.replicas[who].as_ref().map(|replica| replica.ended);
        if ended == Some(true) {
            self.kill(who);
        }
    }

    /// Lets every process do what it can, and the API server answer.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        for who in 0..self.kinds.len() {
            let now = self.now(who);
            let Some(replica) = &mut self.replicas[who] else {
                continue;
            };
            replica.frozen = false;
            for place in 0..replica.places() {
                replica.act(place, now);
                replica.arrive(place, &mut self.server);
                replica.answer(place, &mut self.server, now, 0.5);
                replica.stop(place);
            }
            while replica.step(&mut self.server, now) {}
            if replica.ended {
                self.kill(who);
            }
            self.check()?;
        }
        Ok(())
    }

    /// The processes that could act for this controller now.
    pub(super) fn acting(&self, of: usize) -> Vec<usize> {
        let acts = |who: &usize| {
            let replica = self.replicas[*who].as_ref();
            replica.is_some_and(|replica| replica.may_act(of, self.now(*who)))
        };
        (0..self.kinds.len()).filter(acts).collect()
    }

    /// Checks the invariants.
    pub(super) fn check(&mut self) -> Result<(), String> {
        for of in 0..self.controllers {
            let acting = self.acting(of);
            self.figures.at_work += acting.len();
            if acting.len() > 1 {
                let at = self.passed;
                return Err(format!("controller {of} works in {acting:?} after {at:?}"));
            }
            for who in 0..2 {
                let works = self.kinds[who].controllers[0] == of && acting.contains(&who);
                self.figures.heads += usize::from(works && !self.head_worked[who]);
                if self.kinds[who].controllers[0] == of {
                    self.head_worked[who] = works;
                }
            }
        }
        let mut wrong = self.replicas.iter().flatten();
        match wrong.find_map(|replica| replica.wrong.clone()) {
            Some(wrong) => Err(wrong),
            None => Ok(()),
        }
    }

    pub(super) fn have_one_head(&self) -> bool {
        self.kinds[0].controllers == self.kinds[1].controllers
    }

    fn figures(&self) -> Figures {
        Figures {
            taken: self.server.taken,
            inherited: self.server.inherited,
            ..self.figures
        }
    }
}

/// Runs a story with this number of events, then lets it come to rest.
pub(super) fn tell(
    seed: u64,
    length: u64,
    mutant: Mutant,
    setting: Setting,
) -> Result<Figures, String> {
    let story = Story::new(seed, mutant, setting);
    let mut story = story.ok_or("durations that do not fit")?;
    for _ in 0..length {
        story.happen();
        story.check()?;
    }
    let figures = story.figures();
    quiet::rest(&mut story)?;
    Ok(figures)
}

/// Figures of a process of three controllers that leads for a while, and of its successor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Succession {
    /// Number of writes to leases in a minute without events.
    pub(super) writes: u64,
    /// Time from the death of the leader until all controllers work in its successor.
    pub(super) took: Duration,
}

/// Lets a leader work, kills it, and waits for its successor.
pub(super) fn succession(pace: u32) -> Succession {
    const TICK: Duration = Duration::from_millis(100);
    let mut story = story_of_three(pace);
    let settle = |story: &mut Story| {
        story.pass(TICK);
        assert_eq!(story.settle(), Ok(()));
    };
    let until_all_work = |story: &mut Story, who: usize| {
        let begun = story.passed;
        while (0..story.controllers).any(|of| story.acting(of) != [who]) {
            settle(story);
            assert!(story.passed - begun < Duration::from_secs(600));
        }
        story.passed - begun
    };
    story.begin(0);
    until_all_work(&mut story, 0);
    story.begin(1);
    let minute = 600;
    (0..minute).for_each(|_| settle(&mut story));
    let before = story.server.writes;
    (0..minute).for_each(|_| settle(&mut story));
    let writes = story.server.writes - before;
    story.kill(0);
    let took = until_all_work(&mut story, 1);
    Succession { writes, took }
}

/// No process is running yet, and all clocks are right.
fn story_of_three(pace: u32) -> Story {
    let setting = Setting {
        pace,
        ..Setting::default()
    };
    let stories = (0..).filter_map(|seed| Story::new(seed, Mutant::None, setting));
    let mut three = stories.filter(|story| story.controllers == 3 && story.have_one_head());
    let mut story = three.next().unwrap_or_else(|| unreachable!("one in a few"));
    for (kind, replica) in story.kinds.iter_mut().zip(&mut story.replicas) {
        kind.speed = 1000;
        *replica = None;
    }
    story
}
