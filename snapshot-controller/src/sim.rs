//! Crash simulation: the controller that ships against a model API server and a small sidecar.
//!
//! One run is one interleaving, drawn from a seed: people create, change and delete objects at any
//! time, the sidecar takes and deletes snapshots one request at a time, watch events arrive late and
//! kind by kind, attempts advance one step at a time, requests meet conflicts, are refused or lose
//! their answer, and the process stops at any point and starts anew with empty caches. Then the faults
//! end and everything must come to rest; what is left is deleted, and must go.
//!
//! What is held, in every run:
//!
//! 1. nothing that is deleted stays Terminating, and no content stays that is to be deleted with a
//!    VolumeSnapshot that is gone; no snapshot stays in storage unless its content was kept;
//! 2. at most one content is made for a VolumeSnapshot, and none once its snapshot was taken;
//! 3. no content is deleted whose policy is `Retain`, or whose VolumeSnapshot is not being deleted;
//! 4. no VolumeSnapshot goes before its content is deleted, if that is its policy;
//! 5. no claim keeps our finalizer at rest, and none loses it while a snapshot of it is being taken;
//! 6. finalizers and annotations of others survive every write;
//! 7. whatever went wrong, no book and no queue holds anything in the end;
//! 8. without faults nothing is told that only the order of events explains, nothing fails for good,
//!    each content is made and deleted once, and whatever waits is woken without its back-off;
//! 9. a group is made once, with something that holds it; its members are deleted with it alone, go
//!    after it, and are never reset to what the driver said first;
//! 10. no request is repeated again and again without time going on.
//!
//! What a stopped process has sent arrives at any later time, or never. Three kinds of requests are
//! assumed to arrive before its successor has listed: the POST of a content, the patch that binds one,
//! and the PUT of a claim. An API server ends a request together with its connection, and a successor
//! lists when a lease has run out.
//!
//! | file | contents |
//! |---|---|
//! | `world` | one run: what happens next |
//! | `process` | one process: the controller that ships, on queues that are sets |
//! | `known` | its caches |
//! | `step` | attempts advance: requests, answers, and what is held at each |
//! | `sidecar` | who takes and deletes snapshots |
//! | `groups` | the same of groups, and what is held of them |
//! | `users` | who else changes objects |
//! | `quiescence` | the end of a run |
//! | `mutant` | faulty controllers, each of which must be caught |

mod groups;
mod known;
mod mutant;
mod process;
mod quiescence;
mod sidecar;
mod step;
mod users;
mod world;

use mutant::Mutant;
use sidecar_testkit::sim::mutant::missed;
use sidecar_testkit::sim::{self, Dice};
use world::{Faults, run};

/// Runs of each kind.
fn runs() -> u64 {
    sim::runs(1_500)
}

/// A mutant that goes unnoticed for so long is not caught.
const MOST: u64 = 20_000;

fn hold(faults: Faults) {
    sim::mutant::hold(runs(), |seed| run(seed, faults, Mutant::None));
}

#[test]
fn invariants_hold_under_every_fault() {
    hold(Faults::All);
}

#[test]
fn invariants_hold_under_crashes_alone() {
    hold(Faults::Crashes);
}

#[test]
fn claims_are_free_although_snapshots_are_taken_away_by_force() {
    hold(Faults::Strips);
}

#[test]
fn without_faults_nothing_fails_and_nothing_waits_for_its_back_off() {
    hold(Faults::None);
}

/// The simulation is worth something only if it finds what is wrong.
#[test]
fn every_mutant_is_caught() {
    assert_eq!(missed(&Mutant::CAUGHT_BY, MOST, run), [""; 0]);
}

/// One run that is looked at: `SEED=… cargo test -p snapshot-controller --lib one_seed -- --ignored`.
#[test]
#[ignore = "for looking at one run"]
fn one_seed() {
    let seed = std::env::var("SEED").unwrap().parse().unwrap();
    let faults = match std::env::var("FAULTS").as_deref() {
        Ok("All") => Faults::All,
        Ok("Crashes") => Faults::Crashes,
        Ok("Strips") => Faults::Strips,
        _ => Faults::None,
    };
    run(seed, faults, Mutant::None).unwrap();
}
