//! Crash simulation: the controller that ships against a model API server and a model driver.
//!
//! A seed determines one interleaving: people create and delete objects, watch events arrive late
//! or repeatedly, attempts on several attachments advance one step at a time, lists arrive object
//! by object during the work, requests are refused or lose their reply, calls fail with or without
//! effect or outlive their caller, and the process stops at any point and restarts with empty
//! caches. Then the faults end, and the system must come to rest.
//!
//! Every run checks these invariants:
//!
//! 1. no volume is reported attached without a successful publish call;
//! 2. no finalizer is removed while the driver may still have the volume published;
//! 3. every deleted VolumeAttachment disappears once nothing blocks it, and no volume stays
//!    published that no VolumeAttachment requests;
//! 4. a process never has two controller calls in flight for one volume and node;
//! 5. a volume whose attachment disappeared without a detach, because somebody removed the
//!    finalizer, is unpublished unless it may be in use, and never while another attachment
//!    requests it;
//! 6. without faults there is exactly one publish and one unpublish call per attachment, however
//!    late watch events are;
//! 7. whatever went wrong, everything that is deleted at the end disappears, and neither the
//!    in-flight state nor a queue keeps anything of it, even if some faults never heal;
//! 8. no call is repeated over and over without time passing.
//!
//! The server may apply a request of a stopped process, or one whose caller gave up, at any later
//! time or never. A patch of an attachment carries the UID of its object. One assumption: a patch
//! of a volume never reaches a recreated volume of the same name.
//!
//! | file | contents |
//! |---|---|
//! | `server` | the model API server, with its event log |
//! | `driver` | the model driver |
//! | `process` | one attacher process: the controller that ships, its caches, queues that are sets |
//! | `run` | one run: chooses the next event |
//! | `users` | other clients that change objects |
//! | `death` | the process stops, and another one starts |
//! | `step` | attempts advance; invariants are checked |
//! | `call` | calls to the driver |
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

/// Runs the seeds and returns the total number of steps.
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

/// Number of runs of each kind.
fn runs() -> u64 {
    sim::runs(30_000)
}

/// A mutant counts as missed after this many runs.
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

/// The simulation is useful only if it detects faulty attachers.
#[test]
fn every_mutant_is_caught() {
    let run = |seed, faults, mutant| run(seed, faults, mutant).map(drop);
    assert_eq!(missed(&Mutant::CAUGHT_BY, MOST, run), [""; 0]);
}
