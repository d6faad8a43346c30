//! The order in which a process takes and releases the leases of its controllers.
//!
//! The first lease is the *head*. Only its holder requests the others, so that all of them end up in one
//! process, and a controller works only while both its own lease and the head are held. The head is
//! released last: whoever takes it may at once take the leases that its former holder still holds.
//!
//! An order lasts until the head is lost or released. Its last step says whether another order follows
//! or the process ends.
//!
//! The shell executes one step after another and reports the results. Events may arrive at any time
//! between two steps; each is defined in every state.

/// A controller's place in the order; the head is 0.
pub type Place = usize;

/// The next step for the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Request this lease until it is [`acquired`](Order::acquired), then hold it until it is
    /// [`gone`](Order::gone).
    Seek(Place),
    /// Stop requesting this lease. A request in flight may still take effect.
    Abandon(Place),
    /// Start this controller, which works until it has [`stopped`](Order::stopped).
    Start(Place),
    /// Ask this controller to finish its running work and stop.
    Drain(Place),
    /// Stop this controller at once; its lease is lost.
    Cut(Place),
    /// Release this lease, then report it [`gone`](Order::gone), whether or not the release succeeded.
    Release(Place),
    /// The order is over: abort what still runs, and drop the leases still held or requested without
    /// releasing them.
    Over(Then),
}

/// What follows an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The head was lost, or the driver was unreachable: the process reconnects to its driver over new
    /// connections and begins another order.
    Again,
    /// The process ends.
    Exit,
}

/// The goal of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    Work,
    /// Release all leases so that another replica can try, since the driver is unreachable.
    Rest,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lease {
    Free,
    Sought,
    Held,
    Leaving,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Stopped,
    Running,
    Draining,
    Cut,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    lease: Lease,
    work: Work,
    /// Whether the controller is switched off for good.
    is_off: bool,
}

/// The leases of a process and the controllers that work under them.
#[derive(Clone, Debug)]
pub struct Order {
    parts: Vec<Part>,
    aim: Aim,
    /// Whether the head was lost or the time to release everything ran out.
    is_cut_short: bool,
    is_over: bool,
}

impl Order {
    /// A process of this number of controllers, at least one, without any lease.
    #[must_use]
    pub fn new(controllers: usize) -> Self {
        let part = Part {
            lease: Lease::Free,
            work: Work::Stopped,
            is_off: false,
        };
        Self {
            parts: vec![part; controllers.max(1)],
            aim: Aim::Work,
            is_cut_short: false,
            is_over: false,
        }
    }

    /// This lease is held now.
    pub fn acquired(&mut self, place: Place) {
        if let Some(part) = self.parts.get_mut(place) {
            part.lease = match part.lease {
                // A lease that is no longer requested counts as held, too, and is released.
                Lease::Free | Lease::Sought | Lease::Held => Lease::Held,
                Lease::Leaving => Lease::Leaving,
            };
        }
    }

    /// This lease is no longer held: it was lost, or released as far as possible. If both were in
    /// progress, their order does not matter.
    pub fn gone(&mut self, place: Place) {
        if let Some(part) = self.parts.get_mut(place) {
            self.is_cut_short |= place == 0 && part.lease == Lease::Held;
            part.lease = match part.lease {
                Lease::Free | Lease::Held | Lease::Leaving => Lease::Free,
                Lease::Sought => Lease::Sought,
            };
        }
    }

    /// This controller has stopped completely.
    pub fn stopped(&mut self, place: Place) {
        if let Some(part) = self.parts.get_mut(place) {
            part.work = Work::Stopped;
        }
    }

    /// Switches this controller off for good. Its lease is released, unless it is the head, which the
    /// others need.
    pub fn switch_off(&mut self, place: Place) {
        if let Some(part) = self.parts.get_mut(place) {
            part.is_off = true;
        }
    }

    /// The driver is unreachable: all leases are released.
    pub fn rest(&mut self) {
        match self.aim {
            Aim::Work | Aim::Rest => self.aim = Aim::Rest,
            Aim::End => {}
        }
    }

    /// The process should end in good order.
    pub fn end(&mut self) {
        self.aim = Aim::End;
    }

    /// Ends the order at once, because releasing has taken too long.
    pub fn cut_short(&mut self) {
        self.is_cut_short = true;
    }

    /// Whether this controller was started and has not stopped.
    #[must_use]
    pub fn is_at_work(&self, place: Place) -> bool {
        let part = self.parts.get(place);
        part.is_some_and(|part| part.work != Work::Stopped)
    }

    /// Whether this controller was asked to stop and has not.
    #[must_use]
    pub fn is_stopping(&self, place: Place) -> bool {
        let part = self.parts.get(place);
        part.is_some_and(|part| matches!(part.work, Work::Draining | Work::Cut))
    }

    /// The next step, which counts as begun from now on; `None` if an event must come first or the order
    /// is over.
    pub fn next_step(&mut self) -> Option<Step> {
        if self.is_over {
            return None;
        }
        let step = self.over();
        let step = step.or_else(|| self.stop());
        let step = step.or_else(|| self.give_back());
        step.or_else(|| self.take())
    }

    /// Ends the order if it was cut short or everything has been released.
    fn over(&mut self) -> Option<Step> {
        let is_empty = |part: &Part| part.lease == Lease::Free && part.work == Work::Stopped;
        let then = match self.aim {
            Aim::Work | Aim::Rest => Then::Again,
            Aim::End => Then::Exit,
        };
        let is_done = self.aim != Aim::Work && self.parts.iter().all(is_empty);
        self.is_over = self.is_cut_short || is_done;
        self.is_over.then_some(Step::Over(then))
    }

    /// Stops controllers that must not work any longer.
    fn stop(&mut self) -> Option<Step> {
        let aim = self.aim;
        for (place, part) in self.parts.iter_mut().enumerate() {
            let is_running = matches!(part.work, Work::Running | Work::Draining);
            if is_running && part.lease != Lease::Held {
                part.work = Work::Cut;
                return Some(Step::Cut(place));
            }
            if part.work == Work::Running && (aim != Aim::Work || part.is_off) {
                part.work = Work::Draining;
                return Some(Step::Drain(place));
            }
        }
        None
    }

    /// Releases leases that should not be held, the head last.
    fn give_back(&mut self) -> Option<Step> {
        let (aim, head) = (self.aim, self.holds_head());
        let mut others_hold = false;
        for (place, part) in self.parts.iter_mut().enumerate().rev() {
            let is_wanted = aim == Aim::Work && (place == 0 || head && !part.is_off);
            match (part.lease, part.work) {
                (Lease::Sought, _) if !is_wanted => {
                    part.lease = Lease::Free;
                    return Some(Step::Abandon(place));
                }
                (Lease::Held, Work::Stopped) if !is_wanted && (place > 0 || !others_hold) => {
                    part.lease = Lease::Leaving;
                    return Some(Step::Release(place));
                }
                (_, _) => others_hold |= part.lease != Lease::Free || part.work != Work::Stopped,
            }
        }
        None
    }

    /// Requests leases and starts controllers where possible.
    fn take(&mut self) -> Option<Step> {
        if self.aim != Aim::Work {
            return None;
        }
        let head = self.holds_head();
        for (place, part) in self.parts.iter_mut().enumerate() {
            let may_begin = head && part.work == Work::Stopped && !part.is_off;
            match part.lease {
                Lease::Free if place == 0 || may_begin => {
                    part.lease = Lease::Sought;
                    return Some(Step::Seek(place));
                }
                Lease::Held if may_begin => {
                    part.work = Work::Running;
                    return Some(Step::Start(place));
                }
                Lease::Free | Lease::Sought | Lease::Held | Lease::Leaving => {}
            }
        }
        None
    }

    fn holds_head(&self) -> bool {
        self.parts.first().map(|head| head.lease) == Some(Lease::Held)
    }
}

#[cfg(test)]
mod tests;
