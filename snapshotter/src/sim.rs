//! Crash simulation: the controller that ships against a model API server, driver, snapshot-controller
//! and administrators.
//!
//! One run is one interleaving, drawn from a seed: contents are created, with and without the finalizer that
//! protects them and with leftovers that backup tools copied, are bound, deleted with their VolumeSnapshots or by
//! hand, and change their policy; classes come, go, change and pass to another driver; Secrets come and go; other
//! programs hold contents; watch events arrive late or twice; attempts on several contents advance one step at a
//! time; requests are refused, conflict, lose their answer, or are applied after nobody waits for them; calls fail
//! with or without effect, outlive their caller, or find the driver away; snapshots become ready some time after
//! they are cut, or are lost before, and the driver takes others; it spells some handles differently from
//! administrators; and the process stops at any point and restarts with empty caches while its patches are still
//! under way, or stands still while another one leads and then goes on. Then the faults end and everything must
//! come to rest; in some runs impossible requests stay impossible, and everything else must come to rest. In the
//! end all objects are deleted.
//!
//! Every run checks that
//!
//! 1. each VolumeSnapshot gets at most one snapshot, ever, unless the driver lost one: then another one makes
//!    nothing ready, and is reported;
//! 2. storage neither has nor can get a snapshot without a content that names it or is marked, unless the
//!    policy was to retain it; nor an existing one that a lookup found or whose content was bound;
//! 3. the driver is asked to delete only the snapshot of a content that is being deleted, whose VolumeSnapshot is
//!    being deleted or was never bound, and whose policy is `Delete`; never while a call's outcome is unknown;
//! 4. a handle in a status is the driver's and never changes; it is only cleared, after the snapshot is
//!    gone;
//! 5. readiness and size are the driver's;
//! 6. the writes of others survive: their finalizers, and all annotations except the mark;
//! 7. contents of other drivers are left alone;
//! 8. calls carry the Secret that the content or its class names;
//! 9. every content reaches its proper state once its obstacle is gone: ready, without mark and error, or
//!    deleted. None stays Terminating;
//! 10. without faults each snapshot is requested once, plus once for each answer that it is not ready, and for
//!     each answer that came when nobody wanted it, its VolumeSnapshot being deleted and its policy `Retain`;
//! 11. between two changes or back-offs a content costs a bounded number of requests, and a request that the
//!     driver called impossible is not repeated within 30 seconds;
//! 12. a snapshot that nobody wants to become ready is not polled;
//! 13. the controller remembers nothing of contents that are gone;
//! 14. a snapshot's topology is written before its handle.
//!
//! Assumptions: a process whose lease has expired sends nothing more, which its connections ensure
//! ([`Fence`](sidecar::election::Fence)); what it sent before arrives at any time. A driver's call that
//! finds the snapshot of its name creates none, however late it ends.
//!
//! All of it runs for single snapshots and for groups, which the same controller takes. For groups, each of
//! two members, it also checks that the members
//!
//! 15. are recorded with the group's handle, and keep their identity and readiness;
//! 16. are listed when the group is deleted, although answers may lack one of them.
//!
//! Not simulated: contents of members, drivers that cannot list, and drivers without groups.
//!
//! | file | contents |
//! |---|---|
//! | `answer` | the model driver's answers about snapshots |
//! | `users` | actions of the snapshot-controller, users and administrators |
//! | `check` | the checks at each step |
//! | `process` | one snapshotter process: the controller that ships, its caches, a set as queue |
//! | `world` | one run, which picks the next action |
//! | `step` | attempts advance |
//! | `freeze` | a leader that stands still while another one leads |
//! | `quiescence` | the end of a run |
//! | `mutant` | faulty snapshotters, which the checks must catch |

mod answer;
mod check;
mod freeze;
mod mutant;
mod process;
mod quiescence;
mod step;
mod users;
mod world;

use crate::model::Kind;
use mutant::{Caught, Mutant};
use sidecar_testkit::sim::mutant::missed;
use sidecar_testkit::sim::{self, Dice};
use world::{Faults, run};

/// Runs the seeds without a mutant.
fn hold(runs: u64, kind: Kind, faults: Faults) {
    sim::mutant::hold(runs, |seed| run(seed, kind, faults, Mutant::None));
}

/// Number of seeds for each kind.
fn runs() -> u64 {
    sim::runs(2_000)
}

/// Number of seeds that must catch a mutant.
const MOST: u64 = 20_000;

#[test]
fn s_112_invariants_hold_under_every_fault() {
    hold(2 * runs(), Kind::Single, Faults::All);
}

#[test]
fn s_112_invariants_hold_under_crashes_alone() {
    hold(runs(), Kind::Single, Faults::Crashes);
}

#[test]
fn what_can_be_done_is_done_beside_what_never_can() {
    hold(runs(), Kind::Single, Faults::Lasting);
}

#[test]
fn one_call_for_each_snapshot_without_faults() {
    hold(runs(), Kind::Single, Faults::None);
}

/// Groups: at most one for each VolumeGroupSnapshot, whose members keep their identity; none is left over.
#[test]
fn g_36_g_37_invariants_hold_for_groups_under_every_fault() {
    hold(2 * runs(), Kind::Group, Faults::All);
}

#[test]
fn g_36_g_37_invariants_hold_for_groups_under_crashes_alone() {
    hold(runs(), Kind::Group, Faults::Crashes);
}

#[test]
fn what_can_be_done_for_groups_is_done_beside_what_never_can() {
    hold(runs(), Kind::Group, Faults::Lasting);
}

#[test]
fn one_call_for_each_group_without_faults() {
    hold(runs(), Kind::Group, Faults::None);
}

/// A simulation that misses faults proves nothing.
#[test]
fn every_mutant_is_caught() {
    catch(Kind::Single, &Mutant::CAUGHT_ALONE);
    catch(Kind::Single, &Mutant::CAUGHT_BY);
}

#[test]
fn every_mutant_is_caught_with_groups() {
    catch(Kind::Group, &Mutant::CAUGHT_WITH_GROUPS);
    catch(Kind::Group, &Mutant::CAUGHT_BY);
}

/// Prints the violation by one mutant: `MUTANT=ForgetsMark cargo test -p snapshotter one_mutant -- --ignored
/// --nocapture`.
#[test]
#[ignore = "for looking at one mutant"]
fn one_mutant() {
    let wanted = std::env::var("MUTANT").unwrap();
    let all = [
        &Mutant::CAUGHT_BY[..],
        &Mutant::CAUGHT_ALONE,
        &Mutant::CAUGHT_WITH_GROUPS,
    ];
    for &(mutant, faults, expected) in all.concat().iter() {
        if format!("{mutant:?}") != wanted {
            continue;
        }
        for kind in [Kind::Single, Kind::Group] {
            let violations = (0..sim::runs(200)).filter_map(|seed| {
                let violation = run(seed, kind, faults, mutant).err()?;
                Some((violation.contains(expected), violation))
            });
            let (caught, others): (Vec<_>, Vec<_>) = violations.partition(|(caught, _)| *caught);
            let other = others.first().map(|(_, violation)| violation);
            println!(
                "{kind:?}: caught {} times; {} others: {other:?}",
                caught.len(),
                others.len()
            );
        }
    }
}

fn catch(kind: Kind, mutants: &[Caught]) {
    let run = |seed, faults, mutant| run(seed, kind, faults, mutant);
    assert_eq!(missed(mutants, MOST, run), [""; 0]);
}
