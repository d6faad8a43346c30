//! What a process of several controllers does when one of them, or their driver, stops working.
//!
//! A panic is not covered here: it aborts the process (docs/adr/0013). Neither are signals and lost
//! leases, which [`order`](super::order) handles.

use std::time::{Duration, Instant};

use sidecar::retry::RetryPolicy;

use super::order::Place;

/// Back-off before a controller that keeps ending is restarted.
const PAUSE: RetryPolicy = RetryPolicy::new(Duration::from_secs(1), Duration::from_secs(300));

/// A controller that has worked for this long resets its back-off.
const STEADY: Duration = Duration::from_secs(600);

/// Something that has stopped working.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The controller at this place cannot work with this driver.
    NothingToDo {
        /// The place of the controller.
        place: Place,
        /// Whether `--controllers` lists its name, and not only `*`.
        was_named: bool,
    },
    /// The controller at this place ended for any other reason that would end its single program, for
    /// example because the driver came back with other capabilities.
    ByItself(Place),
    /// The driver has been unreachable for so long that another replica should try.
    DriverAway,
    /// The driver came back with another name, on which leases and finalizers depend.
    DriverRenamed,
}

/// The consequence of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// After this pause, restart the controller: it connects to the driver again, with empty caches and
    /// state. The other controllers continue.
    BeginAnew(Duration),
    /// Leave the controller out without an error, since nobody named it. Readiness ignores it.
    LeaveOut,
    /// Switch the controller off for good, as an error that readiness and metrics report. Release its
    /// lease if the order allows that.
    SwitchOff,
    /// Stop all controllers and release their leases until the driver is back.
    Rest,
    /// End the process with this end's error, after releasing all leases.
    Exit,
    /// End the process likewise, with the error of the controller at this place.
    ExitAs(Place),
}

/// The controllers' restarts and switch-offs.
#[derive(Clone, Debug)]
pub struct Ends {
    controllers: Vec<Life>,
    /// Whether livenessprobe or the registrar runs in this process and continues without controllers.
    has_others: bool,
}

/// The starts and ends of one controller, or of the registration.
#[derive(Clone, Debug, Default)]
pub struct Life {
    is_off: bool,
    /// Time of the last start.
    began: Option<Instant>,
    /// Number of ends in a row without a long run in between.
    ended: u32,
}

impl Ends {
    /// State for this number of controllers with leases; `has_others` if livenessprobe or the registrar
    /// is in the process.
    #[must_use]
    pub fn new(controllers: usize, has_others: bool) -> Self {
        Self {
            controllers: vec![Life::default(); controllers],
            has_others,
        }
    }

    /// The controller at `place` has started.
    pub fn began(&mut self, place: Place, now: Instant) {
        if let Some(life) = self.controllers.get_mut(place) {
            life.begin(now);
        }
    }

    /// The consequence of `end`.
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
    /// The controller has started.
    pub fn begin(&mut self, now: Instant) {
        self.began = Some(now);
    }

    /// The controller has ended. Returns the pause before its restart.
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

/// Exit code of a process that cannot start, from the codes that the single programs would return: their
/// common code, or 1 if they differ.
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
        // The driver restarts: the controller stays off, and the process continues.
        assert_eq!(ends.after(unfit(1, true), now), Next::SwitchOff);
        assert!(matches!(
            ends.after(End::ByItself(0), now),
            Next::BeginAnew(_)
        ));
        // No controller left: ends as the first of them.
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
