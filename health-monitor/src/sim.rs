//! Crash simulation: the controller that ships against a model API server and a model driver.
//!
//! A seed determines one interleaving: volumes turn unhealthy and healthy, claims and volumes are created, deleted and
//! recreated under the same names, somebody else changes health conditions, the API server's feature gate is switched
//! on, the driver restarts with other calls; watch events arrive late, attempts advance one step at a time, writes are
//! refused, come late or lose their answer, calls fail, and the process stops at any point and restarts with empty
//! caches. Then the faults end, and the system must come to rest.
//!
//! Every run checks these invariants:
//!
//! 1. at rest, each bound claim has the conditions that the driver reports for its volume, and users got an event about
//!    each abnormal volume of an older driver;
//! 2. nothing is written that the driver did not report to this process, and conditions are removed only after a
//!    report, or after two complete lists of a driver that cannot be queried about single volumes;
//! 3. no claim gets the conditions of a volume that is bound to another claim;
//! 4. a process never has two calls about one volume in flight;
//! 5. an API server that drops conditions gets at most one write per ten minutes from one process;
//! 6. at rest nothing is written, however messages change; without faults nothing is written twice;
//! 7. users get an event about a recovery only if they got one about the fault;
//! 8. whatever went wrong, the process remembers nothing about deleted volumes;
//! 9. no call is repeated over and over without time passing.
//!
//! | file | contents |
//! |---|---|
//! | `world` | one run: chooses the next event; other clients that change objects |
//! | `process` | one process: the shipped controller, its caches, sets as queues |
//! | `driver` | the model driver and its reports so far |
//! | `step` | attempts advance; invariants are checked |
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

/// Number of runs of each kind.
fn runs() -> u64 {
    sim::runs(1_000)
}

/// A mutant counts as missed after this many runs.
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

/// The simulation is useful only if it detects faulty health monitors.
#[test]
fn every_mutant_is_caught() {
    assert_eq!(missed(&Mutant::CAUGHT_BY, MOST, run), [""; 0]);
}
