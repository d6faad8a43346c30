//! Crash simulation: the controller that ships against a model API server, driver, kubelet and users.
//!
//! One run is one interleaving, drawn from a seed: users grow and shrink claims, change their class,
//! delete them, with and without their volumes, and make new ones; pods and classes come and go, and
//! classes become another driver's; kubelet finishes or fails; watch events arrive late or again;
//! attempts on several claims advance one step at a time; requests are refused, conflict, lose their
//! answer, or are applied when nobody waits for them any more; calls fail with or without effect,
//! outlive their caller or are answered with other sizes than asked for; the driver cannot be reached;
//! Secrets are missing or unreadable; lists arrive page by page while work goes on; and the process
//! stops at any point and starts anew with empty caches, other flags and a driver that can do other
//! things, while its patches are still on their way, or stands still while another one leads and then
//! goes on. Then the faults end and everything must come to rest; in some runs what is impossible stays
//! so, and everything else must come to rest. In the end all objects go.
//!
//! What is held, in every run:
//!
//! 1. a claim's capacity is never above what the driver has confirmed;
//! 2. no two controller calls of one process are in flight for one volume;
//! 3. `allocatedResources` says at least what a call in doubt may have reached, from before the call
//!    until the driver's last word;
//! 4. a class is reported only while it is the last one that the driver accepted, and the target of a
//!    modification in doubt is not changed;
//! 5. a volume's capacity is never lowered, except below what the node alone was to reach and did not;
//! 6. every claim gets what it asks for once its cause is gone, and nothing is left behind of it;
//! 7. without faults there is at most one call for each wish, however late watch events are;
//! 8. nothing is begun with a class of another driver;
//! 9. a volume that outlives its claim says what the driver made of it, unless a process ended;
//! 10. the driver is asked for nothing that nobody wants any more, unless it may be at it already;
//! 11. a call carries the Secret that its volume names;
//! 12. what is told is true: a class is announced before the driver is asked, none is said to be
//!     missing that is there, and the last event of what succeeded is no failure;
//! 13. between two changes or back-offs a claim costs a bounded number of requests, and what was called
//!     impossible is not asked for again before its time;
//! 14. nothing is remembered of claims that are gone;
//! 15. claims of other drivers' volumes are left alone, and are not tried again and again.
//!
//! An assumption: a process whose lease is over sends nothing more, as the connections see to it
//! ([`Fence`](sidecar::election::Fence)); what it had sent arrives at any time.
//!
//! | file | contents |
//! |---|---|
//! | `server` | the model API server, with its event log |
//! | `driver` | the model driver |
//! | `users` | what users, administrators, pods and kubelet do |
//! | `check` | what is held at each step |
//! | `process` | one resizer process: the controller that ships, on a queue that is a set |
//! | `informers` | its caches |
//! | `run` | one run: what happens next |
//! | `attempt`, `step` | attempts advance, invariants are held |
//! | `freeze` | a leader that is stopped while another one leads |
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

/// Runs seeds.
fn hold(runs: u64, faults: Faults) {
    sim::mutant::hold(runs, |seed| run(seed, faults, Mutant::None));
}

/// Runs of each kind.
fn runs() -> u64 {
    sim::runs(2_000)
}

/// A mutant that goes unnoticed for so long is not caught.
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

/// The simulation is worth something only if it finds what is wrong.
#[test]
fn every_mutant_is_caught() {
    assert_eq!(missed(&Mutant::CAUGHT_BY, MOST, run), [""; 0]);
}
