//! Crash simulation: the controller that ships against a model API server and a model driver.
//!
//! One run is one interleaving, drawn from a seed: volumes turn unhealthy and healthy, claims and volumes come, go and
//! are made anew under their names, somebody else changes health conditions, the API server's feature gate is switched
//! on, the driver comes back with other calls; watch events arrive late, attempts advance one step at a time,
//! writes are refused, come late or lose their answer, calls fail, and the process stops at any point and starts anew
//! with empty caches. Then the faults end and everything must come to rest.
//!
//! What is held, in every run:
//!
//! 1. at rest each bound claim has the conditions that the driver reports for its volume, and users know of each
//!    volume of an older driver that is not as it should be;
//! 2. nothing is written that the driver did not report to this process, and conditions go for a report alone, or for
//!    two complete lists of a driver that cannot be asked;
//! 3. no claim has conditions of a volume that is bound to another one;
//! 4. no two calls of one process are about one volume at a time;
//! 5. an API server that drops conditions gets one write in ten minutes from one process;
//! 6. at rest nothing is written, whatever messages say; without faults nothing is written twice;
//! 7. users hear of a recovery only if they heard of the fault;
//! 8. whatever went wrong, nothing remembers a volume that is gone;
//! 9. no call is repeated again and again without time going on.
//!
//! | file | contents |
//! |---|---|
//! | `world` | one run: what happens next, and who else changes objects |
//! | `process` | one process: the controller that ships, its caches, queues that are sets |
//! | `driver` | the model driver, and what it has said |
//! | `step` | attempts advance, invariants are held |
//! | `quiescence` | the end of a run |
//! | `mutant` | faulty health monitors, each of which must be caught |

mod driver;
mod mutant;
mod process;
mod quiescence;
mod step;
mod world;

use mutant::Mutant;
use sidecar_testkit::sim;
use sidecar_testkit::sim::mutant::missed;
use world::{Faults, run};

/// Runs of each kind.
fn runs() -> u64 {
    sim::runs(1_000)
}

/// A mutant that goes unnoticed for so long is not caught.
const MOST: u64 = 5_000;

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
fn without_faults_nothing_is_written_twice() {
    hold(Faults::None);
}

/// The simulation is worth something only if it finds what is wrong.
#[test]
fn every_mutant_is_caught() {
    assert_eq!(missed(&Mutant::CAUGHT_BY, MOST, run), [""; 0]);
}
