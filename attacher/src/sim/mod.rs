//! Crash simulation: the real decisions against a model API server and a model driver.
//!
//! One run is one interleaving, drawn from a seed: people create and delete objects, watch events
//! arrive late or again, attempts on several attachments advance one step at a time, requests are
//! refused or lose their answer, calls fail with or without effect or outlive their caller, and
//! the process stops at any point and starts anew with empty caches. Then the faults end and
//! everything must come to rest.
//!
//! What is held, in every run:
//!
//! 1. no volume is reported attached without a successful publish call;
//! 2. no finalizer is removed while the driver may still hold the attachment;
//! 3. every deleted VolumeAttachment goes once its cause is gone, and nothing stays attached that
//!    no VolumeAttachment asks for;
//! 4. no two controller calls of one process are in flight for one volume and node;
//! 5. what attachments leave that go without having been detached, because somebody took their
//!    finalizer, is unpublished unless it may be in use, and never under another attachment;
//! 6. without faults there is exactly one publish and one unpublish call for each, however late
//!    watch events are.
//!
//! One assumption: a request of a stopped process is applied before its successor lists, or never.
//!
//! | file | contents |
//! |---|---|
//! | `server` | the model API server, with its event log |
//! | `driver` | the model driver |
//! | `process` | queues and attempts of one attacher process |
//! | `watch` | its caches |
//! | `informer` | what it makes of their changes |
//! | `run` | one run: what happens next |
//! | `step` | attempts advance, invariants are held |
//! | `call` | calls of the driver, and what attachments that are gone have left |
//! | `rest` | the end of a run |
//! | `mutant` | faulty attachers, each of which must be caught |

mod call;
mod driver;
mod informer;
mod mutant;
mod process;
mod rest;
mod run;
mod server;
mod step;
mod watch;

use mutant::Mutant;
use run::{Faults, Outcome, run};

/// Seeded, and the same on every machine.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    /// True once in `times`.
    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// Runs seeds and returns how many steps were taken in all.
fn hold(seeds: std::ops::Range<u64>, faults: Faults) -> usize {
    let mut steps = 0;
    for seed in seeds {
        match run(seed, faults, Mutant::None) {
            Ok(Outcome { steps: taken }) => steps += taken,
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    steps
}

const RUNS: u64 = 50_000;

#[test]
fn invariants_hold_under_every_fault() {
    hold(0..2 * RUNS, Faults::All);
}

#[test]
fn invariants_hold_under_crashes_alone() {
    hold(0..RUNS, Faults::Crashes);
}

#[test]
fn fs_20_what_attachments_leave_that_lost_their_finalizer_is_unpublished() {
    hold(0..RUNS, Faults::Strips);
}

#[test]
fn two_attachments_of_one_volume_and_node_do_not_call_at_once() {
    hold(0..RUNS, Faults::Aliases);
}

#[test]
fn one_publish_and_one_unpublish_without_faults() {
    hold(0..RUNS, Faults::None);
}

/// The simulation is worth something only if it finds what is wrong.
#[test]
fn every_mutant_is_caught() {
    for (mutant, faults, expected) in Mutant::CAUGHT_BY {
        let caught = (0..RUNS).find_map(|seed| run(seed, faults, mutant).err());
        let violation = caught.unwrap_or_else(|| panic!("{mutant:?} was not caught"));
        assert!(violation.contains(expected), "{mutant:?}: {violation}");
    }
}
