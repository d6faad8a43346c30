//! Simulates two processes of several controllers and two sets of single sidecars that share one driver,
//! with faults between them.
//!
//! The leases are those of production: [`Order`](crate::plan::order::Order) and, for each lease,
//! [`Election`](sidecar::election::decide::Election). A single sidecar is an order of one lease. A
//! request takes effect at any time after it was sent, even if nobody waits for it any more; its answer
//! arrives at any later time or never. Processes freeze, are killed, end in good order and restart.
//! Clocks differ in their time, and in their speed by up to a twentieth.
//!
//! After each step, no controller may have two instances that could act. At the end all faults stop, and
//! every controller must come to work, those of one process together.

mod mutant;
mod quiet;
mod replica;
mod story;
mod world;

use std::time::Duration;

use sidecar_testkit::sim;

use mutant::Mutant;
use story::{Figures, Setting};

/// Number of events of one story.
const LENGTH: u64 = 1000;

/// 1,000 stories contain a million events.
fn runs() -> u64 {
    sim::runs(300)
}

/// Runs a story and returns its figures, or the first violation.
fn tell(seed: u64, mutant: Mutant, setting: Setting) -> Result<Figures, String> {
    story::tell(seed, LENGTH, mutant, setting)
}

#[test]
fn a_44_no_controller_is_at_work_twice_and_all_come_to_work_in_one_process() {
    let mut all = Figures::default();
    for seed in 0..runs() {
        match tell(seed, Mutant::None, Setting::default()) {
            Ok(figures) => all.add(figures),
            Err(wrong) => panic!("story {seed}: {wrong}"),
        }
    }
    // The runs prove nothing unless controllers work and leases change hands.
    let runs = usize::try_from(runs()).unwrap_or(usize::MAX);
    assert!(all.at_work > 50 * runs, "{all:?}");
    assert!(all.heads > runs, "{all:?}");
    assert!(all.inherited > runs / 20, "{all:?}");
    assert!(all.taken > runs / 2, "{all:?}");
}

/// Renewing less often saves writes, but is unsafe beside a client-go that goes by the duration in its
/// own flags.
#[test]
fn a_45_leases_renewed_less_often_are_safe_where_standbys_read_their_duration() {
    let setting = |own: bool| Setting {
        pace: 4,
        own_duration: own,
    };
    for seed in 0..runs() {
        let told = tell(seed, Mutant::None, setting(false));
        assert!(told.is_ok(), "story {seed}: {told:?}");
    }
    let unsafe_one = (0..runs()).find(|seed| tell(*seed, Mutant::None, setting(true)).is_err());
    assert!(
        unsafe_one.is_some(),
        "old standbys wait for as long after all"
    );
}

#[test]
fn a_45_eighteen_writes_a_minute_and_all_taken_over_within_the_time_of_the_head() {
    let succession = story::succession(4);
    assert_eq!(succession.writes, 12 + 3 + 3);
    // The time until the head has expired, for standbys that ask at intervals of up to 2.2 retry
    // periods.
    let limit = Duration::from_secs(15 + 11 + 3);
    assert!(succession.took < limit, "{succession:?}");
}

#[test]
fn a_99_mutants_are_caught() {
    let mut missed = Vec::new();
    for mutant in Mutant::ALL {
        let often = Setting::default();
        let seldom = Setting { pace: 4, ..often };
        let stories = (0..4 * runs()).flat_map(|seed| [(seed, often), (seed, seldom)]);
        let mut told = stories.map(|(seed, setting)| tell(seed, *mutant, setting));
        if told.all(|told| told.is_ok()) {
            missed.push(mutant);
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
