//! One process with its leases.

use std::time::Instant;

use sidecar::election::Timing;
use sidecar::election::decide::{self, Election};

use super::mutant::Mutant;
use super::world::{Answer, Controller, Request, Server, Write, judged};
use crate::plan::holder;
use crate::plan::order::{Order, Place, Step, Then};

/// The configuration of a process, which restarts keep.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    pub(super) host: &'static str,
    /// Its controllers, in the order of their leases.
    pub(super) controllers: Vec<Controller>,
    /// Whether it is a process of several controllers or a single sidecar.
    pub(super) together: bool,
    pub(super) timing: Timing,
    /// Factor by which all leases but the head are renewed less often.
    pub(super) pace: u32,
    /// The lease duration in its own flags, in seconds, if it judges others' leases by that.
    pub(super) own_duration: Option<u64>,
    /// Speed of its clock, in thousandths.
    pub(super) speed: u64,
    pub(super) mutant: Mutant,
}

#[derive(Debug)]
struct Waiting {
    request: Request,
    answer: Option<Answer>,
    started: Instant,
    /// Whether the request releases the lease.
    release: bool,
}

/// The state of one lease in a process.
#[derive(Debug, Default)]
struct Lease {
    election: Option<Election>,
    /// The version it last read.
    seen: Option<u64>,
    waiting: Option<Waiting>,
    /// Whether its controller is running.
    runs: bool,
    times_sought: usize,
}

/// A running process.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) kind: Kind,
    order: Order,
    leases: Vec<Lease>,
    /// Whether the driver is unreachable.
    rests: bool,
    /// Whether the next order waits for the driver.
    waits: bool,
    pub(super) frozen: bool,
    pub(super) ended: bool,
    /// The first rule it broke.
    pub(super) wrong: Option<String>,
}

impl Replica {
    pub(super) fn new(kind: Kind) -> Self {
        let leases = kind.controllers.iter().map(|_| Lease::default());
        Self {
            order: Order::new(kind.controllers.len()),
            leases: leases.collect(),
            rests: false,
            waits: false,
            kind,
            frozen: false,
            ended: false,
            wrong: None,
        }
    }

    pub(super) fn places(&self) -> usize {
        self.leases.len()
    }

    pub(super) fn end(&mut self) {
        self.waits = false;
        self.order.end();
    }

    pub(super) fn rest(&mut self) {
        self.rests = true;
        self.order.rest();
    }

    pub(super) fn go_on(&mut self) {
        self.rests = false;
        self.waits = false;
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.kind.together && self.kind.mutant == mutant
    }

    fn head(&self) -> String {
        format!("controller{}", self.kind.controllers[0])
    }

    fn identity(&self) -> String {
        if !self.kind.together || self.is(Mutant::HostIsOwn) {
            return self.kind.host.to_owned();
        }
        holder::identity(self.kind.host, &self.head())
    }

    fn campaign(&self, place: Place, now: Instant) -> Election {
        let timing = match place {
            0 => self.kind.timing,
            _ => self.kind.timing.renewed_less_often(self.kind.pace),
        };
        let election = Election::new(self.identity(), timing, now);
        if place == 0 {
            election
        } else if self.is(Mutant::MarkIgnored) {
            election.succeeding("")
        } else if self.is(Mutant::AnyHead) {
            election.succeeding("_together")
        } else {
            election.succeeding(holder::mark(&self.head()))
        }
    }

    /// Executes one step of the order. Returns whether there was one.
    pub(super) fn step(&mut self, server: &mut Server, now: Instant) -> bool {
        if self.frozen || self.ended || self.waits {
            return false;
        }
        let Some(step) = self.order.next_step() else {
            return false;
        };
        match step {
            Step::Seek(place) => self.seek(place, now),
            Step::Abandon(place) => {
                self.give_up(place, server, now);
                self.leases[place].election = None;
            }
            Step::Start(place) => self.leases[place].runs = true,
            Step::Drain(place) => {
                if place == 0 && self.is(Mutant::HeadFirst) {
                    self.release(0, server, now);
                }
                if self.is(Mutant::ReleasesAtWork) {
                    self.order.stopped(place);
                }
            }
            Step::Cut(_) => {}
            Step::Release(place) => self.release(place, server, now),
            Step::Over(Then::Exit) => self.ended = true,
            Step::Over(Then::Again) => self.begin_anew(server, now),
        }
        true
    }

    /// Aborts what runs, and drops what is held or requested.
    fn begin_anew(&mut self, server: &mut Server, now: Instant) {
        for place in 0..self.places() {
            self.give_up(place, server, now);
            let kept = place > 0 && self.is(Mutant::KeepsOthers);
            let lease = &mut self.leases[place];
            lease.runs = false;
            lease.election.take_if(|_| !kept);
        }
        self.order = Order::new(self.places());
        self.waits = self.rests;
    }

    fn seek(&mut self, place: Place, now: Instant) {
        let sought = self.leases[place].times_sought;
        self.leases[place].times_sought += 1;
        let forgets = match place {
            0 => self.is(Mutant::ForgetsHead),
            _ => self.is(Mutant::ForgetsOthers),
        };
        if forgets && sought > 0 {
            return;
        }
        let kept = self.leases[place].election.is_some();
        if self.is(Mutant::KeepsOthers) && kept {
            self.order.acquired(place);
            return;
        }
        self.leases[place].election = Some(self.campaign(place, now));
        let at_once = match place {
            0 => self.is(Mutant::HeadNotRequired),
            _ => self.is(Mutant::OwnNotRequired),
        };
        if at_once {
            self.order.acquired(place);
        }
    }

    /// Releases a lease, as the elector does, which waits for this request no longer than for any other.
    fn release(&mut self, place: Place, server: &mut Server, now: Instant) {
        let others = (1..self.places()).any(|other| {
            let lease = &self.leases[other];
            lease.runs || lease.election.is_some()
        });
        if place == 0 && others {
            self.wrong = Some("the head was given back before the others".to_owned());
        }
        if self.leases[place].runs && !self.is(Mutant::HeadFirst) {
            self.wrong = Some(format!("a lease was given back under controller {place}"));
        }
        if place > 0 && self.is(Mutant::KeepsOthers) {
            self.order.gone(place);
            return;
        }
        self.give_up(place, server, now);
        let is_deaf = self.is(Mutant::LossUnheard);
        let lease = &mut self.leases[place];
        let election = lease.election.take();
        let held = |election: &Election| election.deadline().is_some_and(|end| now < end);
        let is_lost = election.as_ref().is_some_and(|election| !held(election));
        let claim = election.filter(held);
        match claim.and_then(|election| election.release()) {
            // The process notices the loss first.
            None if is_lost && is_deaf => {}
            Some(claim) => {
                lease.waiting = Some(Waiting {
                    request: Request::Write(Write::Update(claim, lease.seen)),
                    answer: None,
                    started: now,
                    release: true,
                });
            }
            None => self.order.gone(place),
        }
    }

    /// Executes one step of an election.
    pub(super) fn act(&mut self, place: Place, now: Instant) {
        if self.frozen || self.ended {
            return;
        }
        let fresh = self.campaign(place, now);
        let lease = &mut self.leases[place];
        if lease.waiting.is_some() {
            return;
        }
        let Some(election) = &mut lease.election else {
            return;
        };
        let request = match election.next(now) {
            decide::Step::Wait(_) => return,
            decide::Step::Get => Request::Get,
            decide::Step::Create(claim) => Request::Write(Write::Create(claim)),
            decide::Step::Update(claim) => Request::Write(Write::Update(claim, lease.seen)),
            decide::Step::StepDown(_) if self.order_has_lost(place) => return,
            // It becomes a standby again, without any knowledge.
            decide::Step::StepDown(_) => {
                self.leases[place].election = Some(fresh);
                return;
            }
        };
        self.leases[place].waiting = Some(Waiting {
            request,
            answer: None,
            started: now,
            release: false,
        });
    }

    /// Reports the loss of the lease to the order. Returns whether the process reacts to it.
    fn order_has_lost(&mut self, place: Place) -> bool {
        if place > 0 && self.is(Mutant::KeepsOthers) {
            return false;
        }
        self.order.gone(place);
        self.leases[place].election = None;
        true
    }

    /// The pending request takes effect.
    pub(super) fn arrive(&mut self, place: Place, server: &mut Server) {
        let of = self.kind.controllers[place];
        if let Some(waiting) = &mut self.leases[place].waiting
            && waiting.answer.is_none()
        {
            waiting.answer = Some(server.carry_out(of, &waiting.request));
        }
    }

    /// The answer to the pending request arrives.
    pub(super) fn answer(&mut self, place: Place, server: &mut Server, now: Instant, random: f64) {
        if self.frozen {
            return;
        }
        let lease = &mut self.leases[place];
        let waiting = { &mut lease.waiting }.take_if(|waiting| waiting.answer.is_some());
        let Some(Waiting {
            request,
            answer: Some(answer),
            started,
            release,
        }) = waiting
        else {
            return;
        };
        if release {
            self.order.gone(place);
            return;
        }
        let Some(election) = &mut lease.election else {
            return;
        };
        match (request, answer) {
            (Request::Get, Answer::Lease(record, version)) => {
                lease.seen = Some(version);
                let heir = place > 0 && record.holder.ends_with("_together");
                let record = judged(record, self.kind.own_duration);
                election.found(record, now, random);
                let takes = matches!(election.next(now), decide::Step::Update(_));
                server.inherited += usize::from(heir && takes);
            }
            (Request::Get, _) => election.not_found(),
            (Request::Write(_), Answer::Lease(record, version)) => {
                lease.seen = Some(version);
                if election.written(record, started, now) {
                    self.order.acquired(place);
                }
            }
            (Request::Write(_), _) => {
                election.conflict(now, random);
            }
        }
    }

    /// The process gives up waiting. Its write may still take effect.
    pub(super) fn give_up(&mut self, place: Place, server: &mut Server, now: Instant) {
        if self.frozen {
            return;
        }
        let Some(waiting) = self.leases[place].waiting.take() else {
            return;
        };
        if let (Request::Write(write), None) = (waiting.request, waiting.answer) {
            server.late.push((self.kind.controllers[place], write));
        }
        if waiting.release {
            self.order.gone(place);
        } else if let Some(election) = &mut self.leases[place].election {
            election.failed(now, 0.5);
        }
    }

    /// A controller that was asked to stop has stopped.
    pub(super) fn stop(&mut self, place: Place) {
        if !self.frozen && self.order.is_stopping(place) {
            self.leases[place].runs = false;
            self.order.stopped(place);
        }
    }

    /// Kills the process. Its writes may still take effect.
    pub(super) fn kill(mut self, server: &mut Server) {
        for (place, of) in self.kind.controllers.iter().enumerate() {
            if let Some(Waiting {
                request: Request::Write(write),
                answer: None,
                ..
            }) = self.leases[place].waiting.take()
            {
                server.late.push((*of, write));
            }
        }
    }

    /// Whether a request of this controller would pass its fences now.
    pub(super) fn may_act(&self, of: Controller, now: Instant) -> bool {
        let Some(place) = self.kind.controllers.iter().position(|other| *other == of) else {
            return false;
        };
        let open = |place: Place| {
            let election = self.leases[place].election.as_ref();
            let deadline = election.and_then(Election::deadline);
            deadline.is_some_and(|deadline| now < deadline)
        };
        let own = open(place) || place > 0 && self.is(Mutant::OwnNotRequired);
        let without_head = [Mutant::HeadNotRequired, Mutant::FenceWithoutHead];
        let head = open(0) || without_head.iter().any(|mutant| self.is(*mutant));
        self.leases[place].runs && own && head
    }
}
