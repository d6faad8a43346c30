//! What follows for a process of several controllers from the end of one of them, or of their driver.
//!
//! A panic is not among the ends: it aborts the process (docs/adr/0013). Nor is a signal, nor a lease that is
//! lost, which the [`order`](super::order) follows.

use std::time::{Duration, Instant};

use sidecar::retry::RetryPolicy;

use super::order::Place;

/// Before a controller begins anew that has ended again and again.
const PAUSE: RetryPolicy = RetryPolicy::new(Duration::from_secs(1), Duration::from_secs(300));

/// Who has worked for so long has not begun in vain.
const STEADY: Duration = Duration::from_secs(600);

/// What does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The controller at this place can do nothing at all with such a driver.
    NothingToDo {
        /// Its place.
        place: Place,
        /// `--controllers` has its name, and not `*` alone.
        was_named: bool,
    },
    /// The controller at this place has ended for whatever else ends its single program: the driver came back
    /// with other capabilities than it was met with, for one.
    ByItself(Place),
    /// The driver is away for longer than others can be expected to wait, and there are others.
    DriverAway,
    /// The driver came back under another name, which is that of leases and finalizers.
    DriverRenamed,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// After this pause, meet the driver again, with caches and books of its own that are empty, and work on.
    /// The others are not touched.
    BeginAnew(Duration),
    /// It is left out without a word of reproach: nobody asked for it. It is not missed in readiness.
    LeaveOut,
    /// It does not work again, which is an error that readiness and metrics show. Its lease is given back as far as
    /// the order allows.
    SwitchOff,
    /// All stop and give their leases back until the driver is there again.
    Rest,
    /// The process ends for the reason of this end, after all leases were given back.
    Exit,
    /// The same, for the reason why the controller at this place has nothing to do.
    ExitAs(Place),
}

/// What is left of a process.
#[derive(Clone, Debug)]
pub struct Ends {
    controllers: Vec<Life>,
    /// Others are here that answer for the driver or its registration, and go on without controllers.
    has_others: bool,
}

/// How often something has begun and ended.
#[derive(Clone, Debug, Default)]
pub struct Life {
    is_off: bool,
    /// When it began last.
    began: Option<Instant>,
    /// How often it has ended in a row without having worked for long.
    ended: u32,
}

impl Ends {
    /// A process of so many controllers with leases; `has_others` if livenessprobe or the registrar is in it too.
    #[must_use]
    pub fn new(controllers: usize, has_others: bool) -> Self {
        Self {
            controllers: vec![Life::default(); controllers],
            has_others,
        }
    }

    /// The controller at `place` works from now on.
    pub fn began(&mut self, place: Place, now: Instant) {
        if let Some(life) = self.controllers.get_mut(place) {
            life.begin(now);
        }
    }

    /// What follows from an end.
    pub fn after(&mut self, end: End, now: Instant) -> Next {
        match end {
            End::NothingToDo { place, was_named } => {
                if let Some(life) = self.controllers.get_mut(place) {
                    life.is_off = true;
                }
                match (self.is_none_left(), was_named) {
                    (true, _) => Next::ExitAs(0),
                    (false, true) => Next::SwitchOff,
                    (false, false) => Next::LeaveOut,
                }
            }
            End::ByItself(place) => {
                let life = self.controllers.get_mut(place);
                Next::BeginAnew(life.map_or(PAUSE.base, |life| life.pause(now)))
            }
            End::DriverAway => Next::Rest,
            End::DriverRenamed => Next::Exit,
        }
    }

    fn is_none_left(&self) -> bool {
        let are_off = self.controllers.iter().all(|life| life.is_off);
        !self.has_others && !self.controllers.is_empty() && are_off
    }
}

impl Life {
    /// It works from now on.
    pub fn begin(&mut self, now: Instant) {
        self.began = Some(now);
    }

    /// It has ended, and waits for so long before it begins anew.
    pub fn pause(&mut self, now: Instant) -> Duration {
        let began = self.began.take();
        let worked = began.map_or(Duration::ZERO, |began| now.saturating_duration_since(began));
        if worked >= STEADY {
            self.ended = 0;
        }
        self.ended = self.ended.saturating_add(1);
        PAUSE.delay(self.ended, 0.0)
    }
}

/// With which code a process ends that cannot start, from those of the single programs that would not start either:
/// their code if they agree, else 1.
#[must_use]
pub fn refusal(codes: &[u8]) -> u8 {
    match codes {
        [first, others @ ..] if others.iter().all(|code| code == first) => *first,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unfit(place: Place, was_named: bool) -> End {
        End::NothingToDo { place, was_named }
    }

    #[test]
    fn what_one_end_means_for_all() {
        let second = Duration::from_secs(1);
        for (row, end, next) in [
            ("renamed: A-18", End::DriverRenamed, Next::Exit),
            (
                "other capabilities",
                End::ByItself(1),
                Next::BeginAnew(second),
            ),
            ("the head's too", End::ByItself(0), Next::BeginAnew(second)),
            ("away: A-52", End::DriverAway, Next::Rest),
            ("named: A-51", unfit(2, true), Next::SwitchOff),
            ("not named: A-4", unfit(2, false), Next::LeaveOut),
        ] {
            let mut ends = Ends::new(3, false);
            assert_eq!(ends.after(end, Instant::now()), next, "{row}");
        }
    }

    #[test]
    fn a_51_a_driver_without_expansion_switches_the_resizer_off() {
        let now = Instant::now();
        // provisioner, resizer
        let mut ends = Ends::new(2, false);
        assert_eq!(ends.after(unfit(1, true), now), Next::SwitchOff);
        // The driver is met again: still off, still no end.
        assert_eq!(ends.after(unfit(1, true), now), Next::SwitchOff);
        assert!(matches!(
            ends.after(End::ByItself(0), now),
            Next::BeginAnew(_)
        ));
        // None left: as the first of them.
        assert_eq!(ends.after(unfit(0, true), now), Next::ExitAs(0));

        for was_named in [true, false] {
            let mut alone = Ends::new(1, false);
            assert_eq!(alone.after(unfit(0, was_named), now), Next::ExitAs(0));
        }
        let mut with_livenessprobe = Ends::new(1, true);
        assert_eq!(
            with_livenessprobe.after(unfit(0, true), now),
            Next::SwitchOff
        );
        assert_eq!(
            with_livenessprobe.after(unfit(0, false), now),
            Next::LeaveOut
        );
    }

    #[test]
    fn who_begins_in_vain_waits_longer_each_time_and_who_has_worked_does_not() {
        let mut ends = Ends::new(2, false);
        let mut now = Instant::now();
        let mut end_after = |ends: &mut Ends, place: Place, worked: u64| {
            ends.began(place, now);
            now += Duration::from_secs(worked);
            let next = ends.after(End::ByItself(place), now);
            let Next::BeginAnew(pause) = next else {
                panic!("{next:?}");
            };
            pause.as_secs()
        };
        let pauses: Vec<u64> = (0..11).map(|_| end_after(&mut ends, 0, 5)).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(end_after(&mut ends, 1, 5), 1, "each for itself");
        assert_eq!(end_after(&mut ends, 0, 599), 300);
        assert_eq!(end_after(&mut ends, 0, 600), 1);
        assert_eq!(end_after(&mut ends, 0, 5), 2);
    }

    #[test]
    fn places_that_are_not_there_end_nothing() {
        let now = Instant::now();
        let mut ends = Ends::new(1, false);
        ends.began(5, now);
        assert_eq!(ends.after(unfit(5, true), now), Next::SwitchOff);
        let mut none = Ends::new(0, false);
        assert_eq!(none.after(unfit(0, true), now), Next::SwitchOff);
    }

    #[test]
    fn a_start_that_is_refused_ends_as_the_one_that_refuses() {
        for (row, codes, code) in [
            ("the provisioner alone", &[255][..], 255),
            ("another one", &[1], 1),
            ("the provisioner among others", &[255, 1], 1),
            ("bad flags of all", &[2, 2, 2], 2),
            ("nobody", &[], 1),
        ] {
            assert_eq!(refusal(codes), code, "{row}");
        }
    }
}
