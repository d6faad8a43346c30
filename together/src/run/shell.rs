//! Executes the steps of the order of leases and reports their results to it.

mod lease;
mod work;

#[cfg(test)]
mod simulation;

use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::AbortHandle;
use futures_util::stream::FuturesUnordered;
use sidecar::controller::link::Lost;
use sidecar::controller::tasks::GRACE;
use sidecar::election::Fence;
use sidecar::flags::Exit;
use sidecar::shutdown::Requested;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::members::Controllers;
use super::shown::Shown;
use crate::plan::ends::{End, Ends};
use crate::plan::order::{Order, Place, Step, Then};
use lease::Held;

/// Time limit for stopping and releasing everything: a pod has thirty seconds by default, and the last
/// events need another second.
const LIMIT: Duration = GRACE.saturating_add(Duration::from_secs(3));

/// Something that has happened.
enum Event {
    Acquired(Place, Held),
    /// A lease was lost or released.
    Gone(Place),
    /// A request for a lease was cancelled.
    Abandoned,
    /// A controller's work has ended.
    Ended(Place, Result<(), Exit>),
    /// A controller has stopped completely.
    Stopped(Place),
    /// The driver is lost.
    DriverLost(Lost, Exit),
    /// The process should end.
    Ending,
    /// Stopping takes too long.
    Late,
}

type Task = Pin<Box<dyn Future<Output = Event>>>;

/// The state of one place in the order.
#[derive(Default)]
struct Slot {
    /// Fence of the lease that is requested or held.
    fence: Fence,
    /// Cancels the request for the lease.
    seeking: Option<AbortHandle>,
    /// Asks to release the lease.
    give_back: Option<oneshot::Sender<()>>,
    /// Asks the controller to finish.
    ending: Option<watch::Sender<bool>>,
    /// Aborts the controller's work.
    working: Option<AbortHandle>,
}

/// State that outlives an order.
struct Lasting {
    ends: Ends,
    /// Why a controller is off.
    off: Vec<Option<Exit>>,
    /// Tasks that write events about leases.
    writers: Vec<JoinHandle<()>>,
    result: Result<(), Exit>,
}

/// One order, from requesting the head until it is lost or released. Dropping it aborts everything it
/// started.
struct Shell<'a, C> {
    controllers: &'a C,
    shown: &'a Shown,
    lasting: &'a mut Lasting,
    order: Order,
    slots: Vec<Slot>,
    /// When everything must be released, once that has begun.
    limit: Option<Instant>,
    following: Task,
    leases: FuturesUnordered<Task>,
    works: FuturesUnordered<Task>,
}

/// Runs one order of leases after another, until `ending` or until nothing is left to do. `has_others`
/// if livenessprobe or the registrar continues without the API server; `idle` lists the controllers that
/// cannot work with this driver.
///
/// # Errors
/// Returns the exit, unless the process was asked to end in good order.
pub(super) async fn run(
    controllers: &mut impl Controllers,
    ending: &Requested,
    idle: Vec<(Place, Exit)>,
    (has_others, shown): (bool, &Shown),
) -> Result<(), Exit> {
    let count = controllers.count();
    let mut lasting = Lasting {
        ends: Ends::new(count, has_others),
        off: vec![None; count],
        writers: Vec::new(),
        result: Ok(()),
    };
    for place in (0..count).filter(|place| idle.iter().all(|(idle, _)| idle != place)) {
        shown.is_up(controllers.name(place));
    }
    let mut idle = idle.into_iter();
    loop {
        shown.campaigns(true);
        let mut shell = Shell::new(&*controllers, shown, &mut lasting);
        for (place, exit) in idle.by_ref() {
            shell.switch_off(place, exit);
        }
        let then = shell.until_over(ending).await;
        drop(shell);
        shown.campaigns(false);
        if then == Then::Exit {
            break;
        }
        tokio::select! {
            biased;
            () = ending.requested() => break,
            met = controllers.anew() => if let Err(exit) = met {
                lasting.result = Err(exit);
                break;
            },
        }
    }
    lease::last_events(lasting.writers).await;
    lasting.result
}

impl<'a, C: Controllers> Shell<'a, C> {
    fn new(controllers: &'a C, shown: &'a Shown, lasting: &'a mut Lasting) -> Self {
        let mut order = Order::new(controllers.count());
        for (place, _) in { lasting.off.iter().enumerate() }.filter(|(_, off)| off.is_some()) {
            order.switch_off(place);
        }
        let following = controllers.driver_lost();
        Self {
            controllers,
            shown,
            order,
            slots: lasting.off.iter().map(|_| Slot::default()).collect(),
            lasting,
            limit: None,
            following: Box::pin(async move {
                let (lost, exit) = following.await;
                Event::DriverLost(lost, exit)
            }),
            leases: FuturesUnordered::new(),
            works: FuturesUnordered::new(),
        }
    }

    async fn until_over(&mut self, ending: &Requested) -> Then {
        let mut is_ending = false;
        loop {
            while let Some(step) = self.order.next_step() {
                if let Step::Over(then) = step {
                    return then;
                }
                self.carry_out(step);
            }
            let event = tokio::select! {
                biased;
                () = ending.requested(), if !is_ending => Event::Ending,
                () = until(self.limit) => Event::Late,
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
            Event::Acquired(place, held) => {
                self.hold(place, held);
                self.order.acquired(place);
            }
            Event::Gone(place) => self.order.gone(place),
            Event::Abandoned => {}
            Event::Ended(place, result) => self.ended(place, result),
            Event::Stopped(place) => self.order.stopped(place),
            Event::DriverLost(lost, exit) => {
                self.following = Box::pin(std::future::pending());
                let end = match lost {
                    Lost::StaysAway => End::DriverAway,
                    Lost::Renamed => End::DriverRenamed,
                };
                self.conclude(None, end, exit);
            }
            Event::Ending => self.finish(Order::end),
            Event::Late => {
                tracing::error!("Giving back the leases takes too long, they are left to expire");
                self.order.cut_short();
            }
        }
    }

    fn carry_out(&mut self, step: Step) {
        match step {
            Step::Seek(place) => self.campaign(place),
            Step::Abandon(place) => {
                if let Some(seeking) = self.slot(place).and_then(|slot| slot.seeking.take()) {
                    seeking.abort();
                }
            }
            Step::Start(place) => self.start(place),
            Step::Drain(place) => {
                if let Some(ending) = self.slot(place).and_then(|slot| slot.ending.take()) {
                    ending.send_replace(true);
                }
            }
            Step::Cut(place) => {
                let name = self.controllers.name(place);
                tracing::warn!(controller = name, "Stops at once: its lease is lost");
                if let Some(working) = self.slot(place).and_then(|slot| slot.working.take()) {
                    working.abort();
                }
            }
            Step::Release(place) => {
                if let Some(give_back) = self.slot(place).and_then(|slot| slot.give_back.take()) {
                    // The receiver is gone if the lease was lost at the same time, which is reported
                    // separately.
                    let _ = give_back.send(());
                }
            }
            // Handled by the caller.
            Step::Over(_) => {}
        }
    }

    fn slot(&mut self, place: Place) -> Option<&mut Slot> {
        self.slots.get_mut(place)
    }

    fn end_with(&mut self, exit: Exit) {
        if self.lasting.result.is_ok() {
            self.lasting.result = Err(exit);
        }
        self.finish(Order::end);
    }

    /// Begins to stop and release everything within the time limit.
    fn finish(&mut self, begin: fn(&mut Order)) {
        begin(&mut self.order);
        self.limit.get_or_insert_with(|| Instant::now() + LIMIT);
    }
}

async fn until(limit: Option<Instant>) {
    match limit {
        Some(limit) => sleep_until(limit).await,
        None => std::future::pending().await,
    }
}
