//! In which order a process takes and gives back the leases of its controllers.
//!
//! The first lease is the *head*. Only who holds it asks for the others, so that all of them end up in one
//! process; and a controller works while its own lease and the head are held. The head goes last: whoever
//! takes it may take at once what its former holder still holds.
//!
//! The shell carries out one step after the other and tells what came of it. Between two steps anything
//! may happen, and each event may come at any time.

/// A controller's place in the order; the head is 0.
pub type Place = usize;

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask for this lease until it is [`acquired`](Order::acquired), then hold it until it is
    /// [`lost`](Order::lost). The head is asked for when there is a driver to work with.
    Seek(Place),
    /// Do not ask for it any more. A request under way may still take effect.
    Abandon(Place),
    /// Let this controller work, until it has [`stopped`](Order::stopped).
    Start(Place),
    /// This controller shall finish what it is at and stop.
    Drain(Place),
    /// This controller shall stop at once: it may do nothing any more.
    Cut(Place),
    /// Give this lease back, then tell that it is [`released`](Order::released), whether that worked or
    /// not.
    Release(Place),
    /// Everything has ended.
    End,
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
    ended: bool,
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
            ended: false,
        }
    }

    /// This lease is held from now on.
    pub fn acquired(&mut self, place: Place) {
        self.lease(place, Lease::Sought, Lease::Held);
    }

    /// This lease is held no more.
    pub fn lost(&mut self, place: Place) {
        self.lease(place, Lease::Held, Lease::Free);
    }

    /// This lease was given back, as far as that was possible.
    pub fn released(&mut self, place: Place) {
        self.lease(place, Lease::Leaving, Lease::Free);
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

    /// There is nothing to work with for the time being: all leases are given back. Once they are, the head
    /// is sought again, which whoever carries that out does as soon as there is something to work with.
    pub fn rest(&mut self) {
        if self.aim == Aim::Work {
            self.aim = Aim::Rest;
        }
    }

    /// The process shall end in good order.
    pub fn end(&mut self) {
        self.aim = Aim::End;
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

    /// The next step, which counts as begun from now on; none while something has to happen first.
    pub fn next_step(&mut self) -> Option<Step> {
        let step = self.stop();
        let step = step.or_else(|| self.give_back());
        step.or_else(|| self.take())
    }

    /// Stops who must not work any more.
    fn stop(&mut self) -> Option<Step> {
        let (head, aim) = (self.holds_head(), self.aim);
        for (place, part) in self.parts.iter_mut().enumerate() {
            let may_act = head && part.lease == Lease::Held;
            let is_running = matches!(part.work, Work::Running | Work::Draining);
            if is_running && !may_act {
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

    /// Gives back what is not to be held: under a head that was lost nothing is.
    fn give_back(&mut self) -> Option<Step> {
        let (head, aim) = (self.holds_head(), self.aim);
        let mut others_hold = false;
        for (place, part) in self.parts.iter_mut().enumerate().skip(1) {
            let is_wanted = aim == Aim::Work && head && !part.is_off;
            match (part.lease, part.work) {
                (Lease::Sought, _) if !is_wanted => {
                    part.lease = Lease::Free;
                    return Some(Step::Abandon(place));
                }
                (Lease::Held, Work::Stopped) if !is_wanted => {
                    part.lease = Lease::Leaving;
                    return Some(Step::Release(place));
                }
                (_, _) => others_hold |= part.lease != Lease::Free || part.work != Work::Stopped,
            }
        }
        let first = self.parts.first_mut()?;
        match (first.lease, first.work) {
            (Lease::Sought, _) if aim != Aim::Work => {
                first.lease = Lease::Free;
                Some(Step::Abandon(0))
            }
            (Lease::Held, Work::Stopped) if aim != Aim::Work && !others_hold => {
                first.lease = Lease::Leaving;
                Some(Step::Release(0))
            }
            (_, _) => None,
        }
    }

    /// Takes what is to be had, and ends once nothing is left.
    fn take(&mut self) -> Option<Step> {
        let is_empty = |part: &Part| part.lease == Lease::Free && part.work == Work::Stopped;
        let (head, nothing) = (self.holds_head(), self.parts.iter().all(is_empty));
        if self.aim == Aim::End && nothing && !self.ended {
            self.ended = true;
            return Some(Step::End);
        }
        if self.aim == Aim::Rest && nothing {
            self.aim = Aim::Work;
        }
        if self.aim != Aim::Work {
            return None;
        }
        for (place, part) in self.parts.iter_mut().enumerate() {
            let is_ready = part.work == Work::Stopped;
            match part.lease {
                Lease::Free if place == 0 && nothing => {}
                Lease::Free if place > 0 && head && is_ready && !part.is_off => {}
                Lease::Held if head && is_ready && !part.is_off => {
                    part.work = Work::Running;
                    return Some(Step::Start(place));
                }
                Lease::Free | Lease::Sought | Lease::Held | Lease::Leaving => continue,
            }
            part.lease = Lease::Sought;
            return Some(Step::Seek(place));
        }
        None
    }

    fn holds_head(&self) -> bool {
        self.parts.first().map(|head| head.lease) == Some(Lease::Held)
    }

    fn lease(&mut self, place: Place, before: Lease, now: Lease) {
        let part = self.parts.get_mut(place);
        if let Some(part) = part.filter(|part| part.lease == before) {
            part.lease = now;
        }
    }
}

#[cfg(test)]
mod tests;
