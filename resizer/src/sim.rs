//! Crash simulation: the shipped controller against a model API server, driver, kubelet and users.
//!
//! One run is one interleaving, drawn from a seed: users expand and shrink claims, change their class,
//! delete them, with and without their volumes, and create new ones; pods and classes come and go, and
//! classes move to another driver; kubelet succeeds or fails; watch events arrive late or twice;
//! attempts on several claims advance one step at a time; requests are refused, conflict, lose their
//! response, or are applied after their caller has given up; calls fail with or without effect, outlive
//! their caller or return other sizes than requested; the driver is unreachable; Secrets are missing or
//! unreadable; lists arrive page by page during work; and the process is killed at any point and
//! restarts with empty caches, other flags and a driver with other abilities, while its patches are
//! still on their way, or it freezes while another one leads and then goes on. Then the faults end and
//! everything must come to rest; in some runs the impossible stays impossible, and everything else must
//! come to rest. At the end all objects are deleted.
//!
//! Invariants of every run:
//!
//! 1. a claim's capacity is never above what the driver has confirmed;
//! 2. one process never has two controller calls in flight for the same volume;
//! 3. `allocatedResources` is at least the size that a call with unknown outcome may have reached, from
//!    before the call until the driver's final response;
//! 4. a class is reported only while it is the last one that the driver has applied, and the target of
//!    a modification with unknown outcome stays;
//! 5. a volume's capacity is never lowered, except below a size that only the node was to reach and did
//!    not;
//! 6. every claim gets what it requests once its obstacle is gone, and no trace of it is left;
//! 7. without faults there is at most one call for each user request, however late watch events are;
//! 8. no modification begins with a class of another driver;
//! 9. a volume that outlives its claim has the driver's result, unless a process ended;
//! 10. the driver is not called for a request that nobody wants any more, unless it may be working on
//!     it;
//! 11. a call carries the Secret that its volume references;
//! 12. events are true: a class is announced before the call, no existing class is reported missing,
//!     and the last event of a success is no failure;
//! 13. between two changes or back-offs a claim costs a bounded number of requests, and an infeasible
//!     request is not repeated before its time;
//! 14. no state remains of deleted claims;
//! 15. claims of other drivers' volumes are left alone, without repeated attempts.
//!
//! It assumes that a process without a lease sends nothing more, as the connections guarantee
//! ([`Fence`](sidecar::election::Fence)); whatever it has sent before arrives at any time.
//!
//! | file | contents |
//! |---|---|
//! | `server` | the model API server, with its event log |
//! | `driver` | the model driver |
//! | `users` | actions of users, administrators, pods and kubelet |
//! | `check` | the invariants of each step |
//! | `process` | one resizer process: the shipped controller, on a queue that is a set |
//! | `informers` | its caches |
//! | `run` | one run: chooses what happens next |
//! | `attempt`, `step` | attempts advance, invariants are checked |
//! | `freeze` | a leader that freezes while another one leads |
//! | `quiescence` | the end of a run |
//! | `mutant` | faulty resizers, each of which must be caught |

mod attempt;
mod check;
mod driver;
mod freeze;
mod informers;
mod mutant;
mod process;
mod quiescence;
mod run;
mod server;
mod step;
mod users;

use mutant::Mutant;
use run::{Faults, run};
use sidecar_testkit::sim::mutant::missed;
use sidecar_testkit::sim::{self, Dice};

/// Runs one interleaving per seed.
fn hold(runs: u64, faults: Faults) {
    sim::mutant::hold(runs, |seed| run(seed, faults, Mutant::None));
}

/// Number of runs of each kind.
fn runs() -> u64 {
    sim::runs(2_000)
}

/// A mutant that passes this many runs is not caught.
const MOST: u64 = 100_000;

#[test]
fn invariants_hold_under_every_fault() {
    hold(2 * runs(), Faults::All);
}

#[test]
fn invariants_hold_under_crashes_alone() {
    hold(runs(), Faults::Crashes);
}

#[test]
fn two_volumes_of_one_handle_are_not_called_for_at_once() {
    hold(runs(), Faults::Aliases);
}

#[test]
fn what_can_be_done_is_done_beside_what_never_can() {
    hold(runs(), Faults::Lasting);
}

#[test]
fn fr_17_what_the_node_can_reach_is_reached() {
    hold(runs(), Faults::NodeOnly);
}

#[test]
fn one_call_for_each_wish_without_faults() {
    hold(runs(), Faults::None);
}

/// The simulation proves something only if it finds faults.
#[test]
fn every_mutant_is_caught() {
    assert_eq!(missed(&Mutant::CAUGHT_BY, MOST, run), [""; 0]);
}
