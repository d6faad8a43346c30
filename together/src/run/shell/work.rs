//! The controllers: how they start, and the consequences when one ends by itself.

use std::time::Duration;

use futures_util::future::abortable;
use sidecar::flags::Exit;
use sidecar::shutdown::Requested;
use tokio::time::{Instant, sleep};

use super::{Event, Shell};
use crate::plan::ends::{End, Next};
use crate::plan::order::{Order, Place};
use crate::run::members::Controllers;

impl<C: Controllers> Shell<'_, C> {
    pub(super) fn start(&mut self, place: Place) {
        let (ending, requested) = Requested::channel();
        let Some(slot) = self.slots.get_mut(place) else {
            return;
        };
        match { self.controllers }.begin(place, (slot.fence.clone(), requested)) {
            Ok(working) => {
                slot.ending = Some(ending);
                self.shown.is_up(self.controllers.name(place));
                let ends = &mut self.lasting.ends;
                ends.began(place, Instant::now().into_std());
                self.work(place, async move { Event::Ended(place, working.await) });
            }
            Err(exit) => {
                self.switch_off(place, exit);
                self.order.stopped(place);
            }
        }
    }

    /// Runs a task for a controller until it is aborted.
    pub(super) fn work(&mut self, place: Place, work: impl Future<Output = Event> + 'static) {
        let (work, handle) = abortable(work);
        if let Some(slot) = self.slot(place) {
            slot.working = Some(handle);
        }
        self.works.push(Box::pin(async move {
            work.await.unwrap_or(Event::Stopped(place))
        }));
    }

    /// A controller has ended, on request or by itself.
    pub(super) fn ended(&mut self, place: Place, result: Result<(), Exit>) {
        if self.order.is_stopping(place) {
            self.order.stopped(place);
            return;
        }
        let exit = result.err().unwrap_or_default();
        self.conclude(Some(place), End::ByItself(place), exit);
    }

    /// Switches off a controller that cannot work with this driver.
    pub(super) fn switch_off(&mut self, place: Place, exit: Exit) {
        self.order.switch_off(place);
        if let Some(off) = self.lasting.off.get_mut(place) {
            *off = Some(exit.clone());
        }
        let was_named = self.controllers.is_named(place);
        let end = End::NothingToDo { place, was_named };
        self.conclude(Some(place), end, exit);
    }

    /// Carries out the consequences of an end, of the controller at `place` or of the driver.
    pub(super) fn conclude(&mut self, place: Option<Place>, end: End, exit: Exit) {
        let next = self.lasting.ends.after(end, Instant::now().into_std());
        let name = place.map_or("", |place| self.controllers.name(place));
        let reason = exit.error.as_deref().unwrap_or_default();
        match next {
            Next::BeginAnew(pause) => {
                let seconds = pause.as_secs();
                tracing::error!(
                    controller = name,
                    reason,
                    seconds,
                    "Controller ended, restarting it"
                );
                self.shown.is_down(name);
                if let Some(place) = place {
                    self.pause(place, pause);
                }
            }
            Next::SwitchOff => {
                self.shown.is_off(name, reason);
                tracing::error!(
                    controller = name,
                    reason,
                    "Controller switched off: it cannot work with this driver"
                );
            }
            Next::LeaveOut => {
                tracing::info!(
                    controller = name,
                    reason,
                    "Controller left out: it has nothing to do with this driver"
                );
            }
            Next::Rest => {
                tracing::error!("The CSI driver stays unreachable, letting another replica try");
                self.finish(Order::rest);
            }
            Next::Exit => self.end_with(exit),
            Next::ExitAs(place) => {
                let reason = self.lasting.off.get(place).cloned().flatten();
                self.end_with(reason.unwrap_or(exit));
            }
        }
    }

    /// Lets a controller restart after this time.
    fn pause(&mut self, place: Place, pause: Duration) {
        let (ending, requested) = Requested::channel();
        if let Some(slot) = self.slot(place) {
            slot.ending = Some(ending);
        }
        self.work(place, async move {
            tokio::select! {
                () = requested.requested() => {}
                () = sleep(pause) => {}
            }
            Event::Stopped(place)
        });
    }
}
