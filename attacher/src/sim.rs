//! Crash simulation: the controller that ships against a model API server and a model driver.
//!
//! One run is one interleaving, drawn from a seed: people create and delete objects, watch events
//! arrive late or again, attempts on several attachments advance one step at a time, lists arrive
//! object by object while work goes on, requests are refused or lose their answer, calls fail with or without effect or outlive their caller, and
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
//!    watch events are;
//! 7. whatever went wrong, everything that is deleted in the end goes, and no book and no queue
//!    holds anything of it, even if some faults never heal;
//! 8. no call is repeated again and again without time going on.
//!
//! A request of a stopped process, or one that nobody waits for any more, is applied at any later time,
//! or never. A patch of an attachment says by UID which one it is for. One assumption: a patch of a
//! volume does not reach one that was made anew under the name.
//!
//! | file | contents |
//! |---|---|
//! | `server` | the model API server, with its event log |
//! | `driver` | the model driver |
//! | `process` | one attacher process: the controller that ships, its caches, queues that are sets |
//! | `run` | one run: what happens next |
//! | `users` | who else changes objects |
//! | `death` | the process ends, another one begins |
//! | `step` | attempts advance, invariants are held |
//! | `call` | calls of the driver |
//! | `quiescence` | the end of a run |
//! | `mutant` | faulty attachers, each of which must be caught |

mod call;
mod death;
mod driver;
mod mutant;
mod process;
mod quiescence;
mod run;
mod server;
mod step;
mod users;

use mutant::Mutant;
use run::{Faults, Outcome, run};
use sidecar_testkit::sim::mutant::missed;
use sidecar_testkit::sim::{self, Dice};

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

/// Runs of each kind.
fn runs() -> u64 {
    sim::runs(30_000)
}

/// A mutant that goes unnoticed for so long is not caught.
const MOST: u64 = 50_000;

#[test]
fn invariants_hold_under_every_fault() {
    hold(0..2 * runs(), Faults::All);
}

#[test]
fn invariants_hold_under_crashes_alone() {
    hold(0..runs(), Faults::Crashes);
}

#[test]
fn fs_20_what_attachments_leave_that_lost_their_finalizer_is_unpublished() {
    hold(0..runs(), Faults::Strips);
}

#[test]
fn everything_that_is_deleted_goes_although_some_faults_never_heal() {
    hold(0..runs(), Faults::Lasts);
}

#[test]
fn two_attachments_of_one_volume_and_node_do_not_call_at_once() {
    hold(0..runs(), Faults::Aliases);
}

#[test]
fn one_publish_and_one_unpublish_without_faults() {
    hold(0..runs(), Faults::None);
}

/// The simulation is worth something only if it finds what is wrong.
#[test]
fn every_mutant_is_caught() {
    let run = |seed, faults, mutant| run(seed, faults, mutant).map(drop);
    assert_eq!(missed(&Mutant::CAUGHT_BY, MOST, run), [""; 0]);
}
