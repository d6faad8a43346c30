//! In which order a process takes and gives back the leases of its controllers.
//!
//! The first lease is the *head*. Only who holds it asks for the others, so that all of them end up in one
//! process; and a controller works while its own lease and the head are held. The head goes last: whoever
//! takes it may take at once what its former holder still holds.
//!
//! An order lasts until the head is lost or given back. What comes then, another order or the end of the
//! process, its last step says.
//!
//! The shell carries out one step after the other and tells what came of it. Between two steps anything
//! may happen: each event may come at any time, and in each state it has a meaning.

/// A controller's place in the order; the head is 0.
pub type Place = usize;

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask for this lease until it is [`acquired`](Order::acquired), then hold it until it is
    /// [`gone`](Order::gone).
    Seek(Place),
    /// Do not ask for it any more. A request under way may still take effect.
    Abandon(Place),
    /// Let this controller work, until it has [`stopped`](Order::stopped).
    Start(Place),
    /// This controller shall finish what it is at and stop.
    Drain(Place),
    /// This controller shall stop at once: it may do nothing any more.
    Cut(Place),
    /// Give this lease back, then tell that it is [`gone`](Order::gone), whether that worked or not.
    Release(Place),
    /// Nothing goes on: what still runs is cut, what is still held or sought is let go without a word.
    Over(Then),
}

/// What follows when an order is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The head was lost, or there was nothing to work with: the process meets its driver again, over other
    /// connections, and begins another order.
    Again,
    /// The process ends.
    Exit,
}

/// What the process is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    Work,
    /// There is nothing to work with: others may try.
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
    /// It shall not work again.
    is_off: bool,
}

/// The leases of a process and the controllers that work under them.
#[derive(Clone, Debug)]
pub struct Order {
    parts: Vec<Part>,
    aim: Aim,
    /// The head was lost, or time is up.
    is_cut_short: bool,
    is_over: bool,
}

impl Order {
    /// A process of so many controllers, one at least, that holds nothing.
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

    /// This lease is held from now on.
    pub fn acquired(&mut self, place: Place) {
        if let Some(part) = self.parts.get_mut(place) {
            part.lease = match part.lease {
                // One that is not sought any more is held all the same, and given back.
                Lease::Free | Lease::Sought | Lease::Held => Lease::Held,
                Lease::Leaving => Lease::Leaving,
            };
        }
    }

    /// This lease is held no more: it was lost, or given back as far as that was possible. Which of them
    /// came first when both were under way makes no difference.
    pub fn gone(&mut self, place: Place) {
        if let Some(part) = self.parts.get_mut(place) {
            self.is_cut_short |= place == 0 && part.lease == Lease::Held;
            part.lease = match part.lease {
                Lease::Free | Lease::Held | Lease::Leaving => Lease::Free,
                Lease::Sought => Lease::Sought,
            };
        }
    }

    /// This controller does nothing any more.
    pub fn stopped(&mut self, place: Place) {
        if let Some(part) = self.parts.get_mut(place) {
            part.work = Work::Stopped;
        }
    }

    /// This controller shall not work again in this process. Its lease is given back, unless it is the
    /// head, which the others need.
    pub fn switch_off(&mut self, place: Place) {
        if let Some(part) = self.parts.get_mut(place) {
            part.is_off = true;
        }
    }

    /// There is nothing to work with for the time being: all leases are given back.
    pub fn rest(&mut self) {
        match self.aim {
            Aim::Work | Aim::Rest => self.aim = Aim::Rest,
            Aim::End => {}
        }
    }

    /// The process shall end in good order.
    pub fn end(&mut self) {
        self.aim = Aim::End;
    }

    /// It is over, whatever goes on: giving back has taken too long.
    pub fn cut_short(&mut self) {
        self.is_cut_short = true;
    }

    /// Whether this controller was started and has not stopped yet.
    #[must_use]
    pub fn is_at_work(&self, place: Place) -> bool {
        let part = self.parts.get(place);
        part.is_some_and(|part| part.work != Work::Stopped)
    }

    /// Whether this controller was told to stop and has not yet.
    #[must_use]
    pub fn is_stopping(&self, place: Place) -> bool {
        let part = self.parts.get(place);
        part.is_some_and(|part| matches!(part.work, Work::Draining | Work::Cut))
    }

    /// The next step, which counts as begun from now on; none while something has to happen first, or when
    /// it is over.
    pub fn next_step(&mut self) -> Option<Step> {
        if self.is_over {
            return None;
        }
        let step = self.over();
        let step = step.or_else(|| self.stop());
        let step = step.or_else(|| self.give_back());
        step.or_else(|| self.take())
    }

    /// It is over when it is cut short, or when nothing is left after all was given back.
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

    /// Stops who must not work any more.
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

    /// Gives back what is not to be held, the head last.
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

    /// Takes what is to be had.
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
