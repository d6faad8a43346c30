//! Crash simulation: the controller that ships against a model API server, driver, snapshot-controller
//! and administrators.
//!
//! One run is one interleaving, drawn from a seed: contents come, with and without the finalizer that
//! protects them, and with what backup tools copy of an older life, are bound, go with their
//! VolumeSnapshots or are deleted by hand, change their policy; classes come, go, change and become another driver's; Secrets come and go; others hold contents;
//! watch events arrive late or again; attempts on several contents advance one step at a time; requests
//! are refused, conflict, lose their answer, or are applied when nobody waits for them any more; calls
//! fail with or without effect, outlive their caller, or find the driver away; snapshots become ready
//! some time after they are cut, or are lost before, and the driver takes others; it spells some handles in
//! another way than administrators; and the process stops at any point and starts anew with empty caches,
//! while its patches are still on their way, or stands still while another one leads and then goes on.
//! Then the faults end and everything must come to rest; in some runs what is impossible stays so, and
//! everything else must come to rest. In the end all objects go.
//!
//! What is held, in every run:
//!
//! 1. there is at most one snapshot for each VolumeSnapshot, ever, unless the driver lost one: another makes
//!    nothing ready, and is told of;
//! 2. no snapshot is in storage, nor may come into being, without a content that names it or is marked,
//!    unless its policy was to retain it; nor one that was there before, and was found or bound;
//! 3. the driver is asked to delete what a content names that is being deleted, whose VolumeSnapshot has
//!    said so or was never bound, and whose policy is to delete; never while a call is in doubt;
//! 4. a handle, once in a status, is the driver's and never changes but for being cleared, after the
//!    snapshot is gone;
//! 5. readiness and size are the driver's;
//! 6. what others write survives: finalizers here, and of annotations nothing but the mark is touched;
//! 7. contents of other drivers are left alone;
//! 8. calls carry the Secret that the content or its class names;
//! 9. every content becomes what it should be once its cause is gone: ready, without mark and error;
//!    deleted where it is to go. Nobody stays Terminating;
//! 10. without faults each snapshot is asked for once, and once more each time that it was not ready or that
//!     the answer found nobody who wanted it, since the VolumeSnapshot was going and its policy to retain;
//! 11. between two changes or back-offs a content costs a bounded number of requests, and what was called
//!     impossible is not asked for again within 30 seconds;
//! 12. what nobody wants to become ready is not polled;
//! 13. nothing is remembered of contents that are gone;
//! 14. where a snapshot is was written before its handle.
//!
//! An assumption: a process whose lease is over sends nothing more, as the connections see to it
//! ([`Fence`](sidecar::election::Fence)); what it had sent arrives at any time. Another, about drivers: a
//! call that finds the snapshot of its name makes none, however late it ends.
//!
//! All of it is run for single snapshots and for groups, which the same controller takes: there the
//! snapshot is a group of two, which
//!
//! 15. are written down with its handle, and stay who they are and as ready as they were;
//! 16. are named when it is deleted, although answers may lack one of them.
//!
//! Not simulated: contents of members, drivers that cannot list, and such as do not know groups.
//!
//! | file | contents |
//! |---|---|
//! | `answer` | what the model driver answers about snapshots |
//! | `users` | what the snapshot-controller, users and administrators do |
//! | `check` | what is held at each step |
//! | `process` | one snapshotter process: the controller that ships, its caches, a queue that is a set |
//! | `world` | one run: what happens next |
//! | `step` | attempts advance |
//! | `freeze` | a leader that is stopped while another one leads |
//! | `quiescence` | the end of a run |
//! | `mutant` | faulty snapshotters, each of which must be caught |

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

/// Runs seeds.
fn hold(runs: u64, kind: Kind, faults: Faults) {
    sim::mutant::hold(runs, |seed| run(seed, kind, faults, Mutant::None));
}

/// Runs of each kind.
fn runs() -> u64 {
    sim::runs(2_000)
}

/// A mutant that goes unnoticed for so long is not caught.
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

/// Groups: at most one for each VolumeGroupSnapshot, whose members stay who they are, and none is left.
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

/// The simulation is worth something only if it finds what is wrong.
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

/// What is violated with one mutant: `MUTANT=ForgetsMark cargo test -p snapshotter one_mutant -- --ignored
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
