//! The controllers: how they begin, and what follows when one ends by itself.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::abortable;
use sidecar::controller::Seat;
use sidecar::flags::Exit;
use sidecar::shutdown::Requested;
use tokio::time::{Instant, sleep};

use super::{Event, Shell};
use crate::plan::ends::{End, Next};
use crate::plan::order::Place;

impl Shell<'_> {
    pub(super) fn start(&mut self, place: Place) {
        let (ending, requested) = Requested::channel();
        let (Some(ground), Some(member), Some(slot)) = (
            &self.ground,
            self.members.get(place),
            self.slots.get_mut(place),
        ) else {
            return;
        };
        let (process, program) = (Arc::clone(self.process), member.controller.program());
        let with = (slot.fence.clone(), requested);
        let seat = Seat::among(process, &ground.tenure, program, &member.own, with);
        match Arc::clone(&member.controller).begin(seat, &ground.link) {
            Ok(working) => {
                self.shown.is_up(member.own.controller);
                self.ends.began(place, Instant::now().into_std());
                slot.ending = Some(ending);
                self.work(place, async move { Event::Ended(place, working.await) });
            }
            Err(exit) => {
                self.switch_off(place, exit);
                self.order.stopped(place);
            }
        }
    }

    /// Does something on a controller's account, until it is cut off.
    pub(super) fn work(&mut self, place: Place, work: impl Future<Output = Event> + 'static) {
        let (work, handle) = abortable(work);
        if let Some(slot) = self.slot(place) {
            slot.working = Some(handle);
        }
        self.works.push(Box::pin(async move {
            work.await.unwrap_or(Event::Stopped(place))
        }));
    }

    /// A controller has ended: it was asked to, or by itself.
    pub(super) fn ended(&mut self, place: Place, result: Result<(), Exit>) {
        if self.order.is_stopping(place) {
            self.order.stopped(place);
            return;
        }
        let exit = result.err().unwrap_or_default();
        self.conclude(Some(place), End::ByItself(place), exit);
    }

    /// A controller has nothing to do with this driver.
    pub(super) fn switch_off(&mut self, place: Place, exit: Exit) {
        self.order.switch_off(place);
        if let Some(slot) = self.slot(place) {
            slot.off = Some(exit.clone());
        }
        let member = self.members.get(place);
        let was_named = member.is_some_and(|member| member.is_named);
        let end = End::NothingToDo { place, was_named };
        self.conclude(Some(place), end, exit);
    }

    /// Carries out what follows from an end, that of the controller at `place` or of the driver.
    pub(super) fn conclude(&mut self, place: Option<Place>, end: End, exit: Exit) {
        let next = self.ends.after(end, Instant::now().into_std());
        let name = place.map_or("", |place| self.name(place));
        let reason = exit.error.as_deref().unwrap_or_default();
        match next {
            Next::BeginAnew(pause) => {
                let seconds = pause.as_secs();
                tracing::error!(controller = name, reason, seconds, "Ended, and begins anew");
                self.shown.is_down(name);
                if let Some(place) = place {
                    self.pause(place, pause);
                }
            }
            Next::SwitchOff => {
                self.shown.is_off(name, reason);
                tracing::error!(controller = name, reason, "Is off with this driver");
            }
            Next::LeaveOut => {
                tracing::info!(controller = name, reason, "Is left out with this driver");
            }
            Next::Rest => {
                tracing::error!("The CSI driver stays away, others may try");
                self.order.rest();
            }
            Next::Exit => self.end_with(exit),
            Next::ExitAs(place) => {
                let reason = self.slots.get(place).and_then(|slot| slot.off.clone());
                self.end_with(reason.unwrap_or(exit));
            }
        }
    }

    /// Lets a controller begin anew after this time.
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
