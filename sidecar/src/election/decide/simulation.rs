//! Two replicas, one lease, and the faults that may come between them.
//!
//! Requests take effect at any time after they were sent, even when nobody waits for them any more, and
//! responses arrive at any time after that or never. A replica may stand still for any time. Clocks
//! agree neither on the time nor, within a twentieth, on its speed. A leader may hand the lease over,
//! and a replica that lost it starts anew.

use std::time::{Duration, Instant};

use super::*;
use crate::duration::GoDuration;

const REPLICAS: usize = 2;

/// One event of the simulation.
#[derive(Clone, Copy, Debug)]
enum Happens {
    /// Time passes, in thousandths of the lease.
    Pass(u64),
    /// A replica executes its next step; nothing while it waits for a response.
    Act(usize),
    /// The request that a replica waits for takes effect.
    Arrive(usize),
    /// The response, if there is one, arrives.
    Answer(usize),
    /// A replica gives up waiting.
    GiveUp(usize),
    /// A request that nobody waits for takes effect after all.
    ArriveLate(usize),
    /// A replica hands the lease over and begins anew.
    Release(usize),
}

/// SplitMix64: the seed reproduces a run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(u64::try_from(end).unwrap())).unwrap()
    }

    fn happens(&mut self) -> Happens {
        let who = self.index(REPLICAS);
        match self.below(31) {
            0..4 => Happens::Pass(self.below(400)),
            4..12 => Happens::Act(who),
            12..20 => Happens::Arrive(who),
            20..28 => Happens::Answer(who),
            28 => Happens::GiveUp(who),
            29 => Happens::ArriveLate(self.index(8)),
            _ => Happens::Release(who),
        }
    }

    /// A valid timing, random to the nanosecond.
    fn timing(&mut self) -> Timing {
        loop {
            let mut duration = |bits: u32| {
                let nanos = self.below(1 << bits) + 1;
                GoDuration::from_nanos(i64::try_from(nanos).unwrap())
            };
            let (lease, renew, retry) = (duration(35), duration(35), duration(33));
            if let Ok(timing) = Timing::new(lease, renew, retry) {
                return timing;
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Write {
    Create(Claim),
    /// Updates the lease at this version.
    Update(Claim, Option<u64>),
}

#[derive(Clone, Debug)]
enum Request {
    Get,
    Write(Write),
}

#[derive(Clone, Debug)]
enum Answer {
    Lease(Record, u64),
    NotFound,
    Conflict,
}

#[derive(Debug)]
struct Waiting {
    request: Request,
    answer: Option<Answer>,
    started: Instant,
}

#[derive(Debug)]
struct Replica {
    election: Election,
    /// The speed of the replica's clock, in thousandths.
    speed: u64,
    /// Version of the lease as the replica saw it last.
    seen: Option<u64>,
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct World {
    timing: Timing,
    start: Instant,
    passed: Duration,
    lease: Option<(Record, u64)>,
    writes: u64,
    replicas: Vec<Replica>,
    late: Vec<Write>,
    /// How often a lease changed hands without a release.
    taken: usize,
}

impl World {
    fn new(timing: Timing, speeds: [u64; REPLICAS]) -> Self {
        let start = Instant::now();
        let replica = |(who, speed): (usize, u64)| Replica {
            election: Election::new(name(who), timing, start),
            speed,
            seen: None,
            waiting: None,
        };
        Self {
            timing,
            start,
            passed: Duration::ZERO,
            lease: None,
            writes: 0,
            replicas: speeds.into_iter().enumerate().map(replica).collect(),
            late: Vec::new(),
            taken: 0,
        }
    }

    /// The time on the replica's clock.
    fn now(&self, who: usize) -> Instant {
        let nanos = self.passed.as_nanos() * u128::from(self.replicas[who].speed) / 1000;
        self.start + Duration::from_nanos(u64::try_from(nanos).unwrap())
    }

    fn happen(&mut self, what: Happens) {
        match what {
            Happens::Pass(thousandths) => {
                self.passed += self
                    .timing
                    .lease()
                    .mul_f64(f64::from(u32::try_from(thousandths).unwrap()) / 1000.0);
            }
            Happens::Act(who) => self.act(who),
            Happens::Arrive(who) => {
                let Some(mut waiting) = self.replicas[who].waiting.take() else {
                    return;
                };
                if waiting.answer.is_none() {
                    waiting.answer = Some(match &waiting.request {
                        Request::Get => self.read(),
                        Request::Write(write) => self.write(write),
                    });
                }
                self.replicas[who].waiting = Some(waiting);
            }
            Happens::Answer(who) => self.answer(who),
            Happens::GiveUp(who) => self.give_up(who),
            Happens::ArriveLate(which) => {
                if which < self.late.len() {
                    let write = self.late.remove(which);
                    self.write(&write);
                }
            }
            Happens::Release(who) => self.release(who),
        }
    }

    fn act(&mut self, who: usize) {
        let now = self.now(who);
        let timing = self.timing;
        let replica = &mut self.replicas[who];
        if replica.waiting.is_some() {
            return;
        }
        let request = match replica.election.next(now) {
            Step::Wait(_) => return,
            Step::Get => Request::Get,
            Step::Create(claim) => Request::Write(Write::Create(claim)),
            Step::Update(claim) => Request::Write(Write::Update(claim, replica.seen)),
            Step::StepDown(_) => {
                replica.election = Election::new(name(who), timing, now);
                return;
            }
        };
        replica.waiting = Some(Waiting {
            request,
            answer: None,
            started: now,
        });
    }

    fn read(&self) -> Answer {
        match &self.lease {
            Some((record, version)) => Answer::Lease(record.clone(), *version),
            None => Answer::NotFound,
        }
    }

    fn write(&mut self, write: &Write) -> Answer {
        let version = self.lease.as_ref().map(|(_, version)| *version);
        let (claim, expected) = match write {
            Write::Create(claim) => (claim, None),
            Write::Update(_, _) if version.is_none() => return Answer::NotFound,
            Write::Update(claim, seen) => (claim, *seen),
        };
        if version != expected {
            return Answer::Conflict;
        }
        self.writes += 1;
        let record = Record {
            holder: claim.holder.clone(),
            seconds: Some(claim.seconds),
            transitions: claim.transitions,
            acquired: claim
                .acquired
                .clone()
                .unwrap_or_else(|| self.writes.to_string()),
            renewed: self.writes.to_string(),
        };
        if let Some((old, _)) = &self.lease {
            let others = !old.holder.is_empty() && old.holder != record.holder;
            self.taken += usize::from(others && !record.holder.is_empty());
        }
        self.lease = Some((record.clone(), self.writes));
        Answer::Lease(record, self.writes)
    }

    fn answer(&mut self, who: usize) {
        let now = self.now(who);
        let replica = &mut self.replicas[who];
        let Some(Waiting {
            request,
            answer: Some(answer),
            started,
        }) = replica.waiting.take_if(|waiting| waiting.answer.is_some())
        else {
            return;
        };
        match (request, answer) {
            (Request::Get, Answer::Lease(record, version)) => {
                replica.seen = Some(version);
                replica.election.found(record, now, 0.0);
            }
            (Request::Get, _) => replica.election.not_found(),
            (Request::Write(_), Answer::Lease(record, version)) => {
                replica.seen = Some(version);
                replica.election.written(record, started, now);
            }
            (Request::Write(_), _) => {
                replica.election.conflict(now, 0.0);
            }
        }
    }

    /// Stops waiting; the written request may still take effect.
    fn give_up(&mut self, who: usize) {
        let now = self.now(who);
        let replica = &mut self.replicas[who];
        let Some(waiting) = replica.waiting.take() else {
            return;
        };
        if let (Request::Write(write), None) = (waiting.request, waiting.answer) {
            self.late.push(write);
        }
        replica.election.failed(now, 0.0);
    }

    fn release(&mut self, who: usize) {
        self.give_up(who);
        let now = self.now(who);
        let timing = self.timing;
        let replica = &mut self.replicas[who];
        let led = replica.election.leading_since_renewal().is_some();
        if let Some(claim) = replica.election.release().filter(|_| led) {
            self.late.push(Write::Update(claim, replica.seen));
        }
        replica.election = Election::new(name(who), timing, now);
    }

    /// Number of replicas whose fence would let a request pass now.
    fn may_act(&self) -> usize {
        let may = |who: &usize| {
            let deadline = self.replicas[*who].election.deadline();
            deadline.is_some_and(|deadline| self.now(*who) < deadline)
        };
        (0..REPLICAS).filter(may).count()
    }
}

fn name(who: usize) -> String {
    format!("host-{who}")
}

#[test]
fn what_two_replicas_do_never_overlaps() {
    let (mut led, mut taken) = (0, 0);
    for story in 0..4000 {
        let mut random = Random(story);
        let timing = random.timing();
        let speeds = [950 + random.below(101), 950 + random.below(101)];
        let mut world = World::new(timing, speeds);
        for _ in 0..300 {
            let what = random.happens();
            world.happen(what);
            let acting = world.may_act();
            assert!(acting <= 1, "story {story}, after {what:?}: {world:#?}");
            led += acting;
        }
        taken += world.taken;
    }
    // A run without leaders or takeovers would prove nothing.
    assert!(led > 200_000 && taken > 500, "{led} {taken}");
}
