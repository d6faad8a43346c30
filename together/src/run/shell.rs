//! Carries out what the order of leases says, and tells it what came of it.

mod campaign;
mod lease;
mod work;

use std::pin::Pin;
use std::sync::Arc;

use ::kube::Client;
use futures_util::StreamExt as _;
use futures_util::future::AbortHandle;
use futures_util::stream::FuturesUnordered;
use sidecar::controller::link::Lost;
use sidecar::controller::{AnyController, ControllerLimits, Election, Link, Process};
use sidecar::election::Fence;
use sidecar::flags::Exit;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::ground::Ground;
use super::shown::Shown;
use crate::plan::ends::{End, Ends};
use crate::plan::order::{Order, Place, Step};
use lease::Held;

/// A controller, in the order of leases.
pub(super) struct Member {
    pub(super) own: ControllerLimits,
    pub(super) is_named: bool,
    pub(super) controller: Arc<dyn AnyController>,
    /// Why it has nothing to do with the driver as it is.
    pub(super) idle: Option<Exit>,
}

/// What has happened.
enum Event {
    /// There are connections for a new attempt to get the head.
    Prepared(Ground),
    /// There can be none.
    Unprepared(Exit),
    Acquired(Place, Box<Held>),
    Lost(Place),
    Released(Place),
    /// A controller has ended by itself.
    Ended(Place, Result<(), Exit>),
    /// A controller does nothing any more.
    Stopped(Place),
    /// What was given up is gone.
    Gone,
    /// The driver is not followed any more.
    DriverLost(Lost, Exit),
    /// The process is to end.
    Ending,
}

type Task = Pin<Box<dyn Future<Output = Event>>>;

/// What belongs to one place in the order.
#[derive(Default)]
struct Slot {
    /// Of the lease that is sought or held.
    fence: Fence,
    /// Of what seeks the lease.
    seeking: Option<AbortHandle>,
    /// Asks for the lease to be given back.
    give_back: Option<oneshot::Sender<()>>,
    /// Asks the controller to finish.
    ending: Option<watch::Sender<bool>>,
    /// Of what works.
    working: Option<AbortHandle>,
    /// Why it is off.
    off: Option<Exit>,
}

struct Shell<'a> {
    process: &'a Arc<Process>,
    members: Vec<Member>,
    /// Leader election, with the client for its requests.
    election: Option<(Election, Client)>,
    /// What writes events about leases.
    writers: Vec<JoinHandle<()>>,
    order: Order,
    ends: Ends,
    shown: &'a Shown,
    slots: Vec<Slot>,
    /// From the moment the head is sought until it is lost or given back.
    ground: Option<Ground>,
    /// The connection to the driver, the last one if there is no ground.
    link: Arc<Link>,
    /// How following the driver ends. It is one future from first to last: who follows first tells the
    /// others, and this shell has to hear it before its controllers do.
    following: Task,
    leases: FuturesUnordered<Task>,
    works: FuturesUnordered<Task>,
    result: Result<(), Exit>,
}

/// Runs until a signal, or until nothing is left to be done; `has_others` are those that answer for the driver
/// without the API server.
///
/// # Errors
/// How the process ends unless a signal ends it in good order.
pub(super) async fn run(
    process: &Arc<Process>,
    members: Vec<Member>,
    ground: Ground,
    (has_others, shown): (bool, &Shown),
) -> Result<(), Exit> {
    let election = members.first().and_then(|head| head.controller.election());
    let election = match election {
        Some(election) => Some((election.clone(), process.lease_client().await?)),
        None => None,
    };
    let mut shell = Shell {
        process,
        election,
        writers: Vec::new(),
        order: Order::new(members.len()),
        ends: Ends::new(members.len(), has_others),
        shown,
        slots: members.iter().map(|_| Slot::default()).collect(),
        members,
        link: Arc::clone(&ground.link),
        ground: None,
        following: Box::pin(std::future::pending()),
        leases: FuturesUnordered::new(),
        works: FuturesUnordered::new(),
        result: Ok(()),
    };
    for place in 0..shell.members.len() {
        let member = shell.members.get_mut(place);
        match member.map(|member| (member.own.controller, member.idle.take())) {
            Some((_, Some(exit))) => shell.switch_off(place, exit),
            Some((name, None)) => shown.is_up(name),
            None => {}
        }
    }
    shell.stand_on(ground);
    shell.until_ended().await
}

impl Shell<'_> {
    async fn until_ended(mut self) -> Result<(), Exit> {
        let mut is_ending = false;
        loop {
            while let Some(step) = self.order.next_step() {
                if step == Step::End {
                    drop((self.leases, self.works));
                    lease::last_events(self.writers).await;
                    return self.result;
                }
                self.carry_out(step);
            }
            let event = tokio::select! {
                biased;
                () = self.process.shutdown.requested(), if !is_ending => Event::Ending,
                event = &mut self.following => event,
                Some(event) = self.leases.next() => event,
                Some(event) = self.works.next() => event,
            };
            is_ending |= matches!(event, Event::Ending);
            self.hear(event);
        }
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Prepared(ground) => {
                self.stand_on(ground);
                self.campaign(0);
            }
            Event::Unprepared(exit) => self.end_with(exit),
            Event::Acquired(place, held) => {
                let lease = self.hold(place, *held);
                self.leases.push(lease);
                self.order.acquired(place);
            }
            Event::Lost(place) => {
                self.order.lost(place);
                self.leave_ground(place);
            }
            Event::Released(place) => {
                self.order.released(place);
                self.leave_ground(place);
            }
            Event::Ended(place, result) => self.ended(place, result),
            Event::Stopped(place) => self.order.stopped(place),
            Event::Gone => {}
            Event::DriverLost(lost, exit) => {
                self.following = Box::pin(std::future::pending());
                let end = match lost {
                    Lost::StaysAway => End::DriverAway,
                    Lost::Renamed => End::DriverRenamed,
                };
                self.conclude(None, end, exit);
            }
            Event::Ending => self.order.end(),
        }
    }

    fn carry_out(&mut self, step: Step) {
        match step {
            Step::Seek(0) if self.ground.is_none() => self.prepare(),
            Step::Seek(place) => self.campaign(place),
            Step::Abandon(place) => {
                if let Some(seeking) = self.slot(place).and_then(|slot| slot.seeking.take()) {
                    seeking.abort();
                }
                self.leave_ground(place);
            }
            Step::Start(place) => self.start(place),
            Step::Drain(place) => {
                if let Some(ending) = self.slot(place).and_then(|slot| slot.ending.take()) {
                    ending.send_replace(true);
                }
            }
            Step::Cut(place) => {
                let name = self.name(place);
                tracing::warn!(controller = name, "Stops at once: its lease is lost");
                if let Some(working) = self.slot(place).and_then(|slot| slot.working.take()) {
                    working.abort();
                }
            }
            Step::Release(place) => {
                if let Some(give_back) = self.slot(place).and_then(|slot| slot.give_back.take()) {
                    // Nobody hears it if the lease was lost at the same time, which is told.
                    let _ = give_back.send(());
                }
            }
            Step::End => {}
        }
    }

    fn slot(&mut self, place: Place) -> Option<&mut Slot> {
        self.slots.get_mut(place)
    }

    fn name(&self, place: Place) -> &'static str {
        self.members
            .get(place)
            .map_or("", |member| member.own.controller)
    }

    fn end_with(&mut self, exit: Exit) {
        if self.result.is_ok() {
            self.result = Err(exit);
        }
        self.order.end();
    }
}
