//! Crash simulation of both programs that take snapshots: each drives the reactor that ships, and what
//! they say to each other goes through one API server.
//!
//! One run is one interleaving, drawn from a seed: users create VolumeSnapshots of claims and of contents
//! that an administrator made, delete them, restore from them, delete contents, change their policies;
//! claims, classes and the Secret come and go; other programs hold objects; watch events reach each
//! program late and kind by kind; requests meet conflicts, are refused or lose their answer, or arrive
//! when nobody waits any more; calls fail with or without effect, outlive their caller, or find the
//! driver away; snapshots become ready some time after they are cut; and either program stops at any
//! point and starts anew with empty caches, or stands still while another one leads, and then goes on.
//! Then the faults end, but for a few of the driver about groups, and everything must come to rest; what is
//! left is deleted, and must go.
//!
//! What is held, in every run:
//!
//! 1. there is at most one snapshot, and at most one content, for each VolumeSnapshot, ever, unless the driver
//!    lost a snapshot and took another, which then makes nothing ready;
//! 2. no snapshot is in storage, nor may come into being, without a content that names it or is marked,
//!    unless its policy was to retain it or nothing held what users took away;
//! 3. no content is deleted whose policy is `Retain` or whose VolumeSnapshot lives, and no snapshot under
//!    a content that always was to be retained;
//! 4. the driver is asked to delete what a content names that is being deleted, and whose VolumeSnapshot
//!    has said so or was never bound; never while a call is in doubt;
//! 5. a VolumeSnapshot that can be used, and lives, has a content whose snapshot is there and can be used;
//! 6. a handle, once in a status, never changes but for being cleared, after the snapshot is gone;
//! 7. no snapshot is taken anew, and none of a claim that is not protected;
//! 8. finalizers of others survive every write;
//! 9. at rest every VolumeSnapshot can be used whose claim or content is there, no claim is held without
//!    need, and nothing that was deleted stays Terminating;
//! 10. in the end no content is left that was to go, and neither program remembers anything;
//! 11. no request is repeated again and again without time going on.
//!
//! In half of the runs people take groups, too, of claims with a label and of what an administrator made;
//! the driver cuts and deletes them member by member, fails in the middle, lists members late, and at times
//! answers with fewer members, or about others, than it was asked for or told before. All of the above is
//! held of them and their contents, and beyond that:
//!
//! 12. a group has one content and one group snapshot, ever, and is protected before its content is made;
//! 13. who belongs to a group is written with its handle, is named when it is deleted, and never changes;
//! 14. no snapshot is taken for a member, and none deleted alone where it is known to be one; nothing of a
//!     member is deleted while its group lives;
//! 15. a member's content is bound to the VolumeSnapshot of its name, has the snapshot of its volume, and is
//!     never reset to what the driver said first;
//! 16. no group is deleted of which a member is being restored;
//! 17. what is called ready of a group is the group that was cut, and ready;
//! 18. at rest each snapshot of a group that lives has a VolumeSnapshot that can be used, and no half member
//!     is left behind.
//!
//! What is assumed: requests of a stopped process arrive at any later time or never, but a content's
//! POST, the patch that binds one and the PUT of a claim, which arrive before the successor has listed;
//! and a process whose lease is over sends nothing more.
//!
//! | file | contents |
//! |---|---|
//! | `kind` | the kinds of objects that the two programs meet |
//! | `world` | one run: what happens next |
//! | `process` | one process of either program: the reactor that ships, on queues that are sets |
//! | `controller`, `snapshotter` | what the two differ in: caches, words of their steps |
//! | `driver` | groups in storage, and what the driver answers |
//! | `request`, `effect` | requests to the API server, and what each brings about |
//! | `step` | attempts advance |
//! | `death` | a program stops, or stands still |
//! | `window` | the crash windows that runs pass through |
//! | `check`, `groups` | what is held at each step |
//! | `users`, `grouping`, `objects` | what people do |
//! | `quiescence` | the end of a run |
//! | `life` | one life of a VolumeSnapshot, and of a group, with a stop at each step |
//! | `mutant` | faulty programs, each of which must be caught |

mod check;
mod controller;
mod death;
mod driver;
mod effect;
mod grouping;
mod groups;
mod kind;
mod life;
mod mutant;
mod objects;
mod process;
mod quiescence;
mod request;
mod snapshotter;
mod step;
mod users;
mod window;
mod world;

use mutant::Mutant;
use sidecar_testkit::sim;
use window::Windows;
use world::{Faults, run};

/// Runs of each kind, where nobody asks for more.
const USUAL: u64 = 200;

fn runs() -> u64 {
    sim::runs(USUAL)
}

/// A mutant that goes unnoticed for so long is not caught.
const MOST: u64 = 2_000;

/// Runs seeds; which windows they pass through.
fn hold(runs: u64, faults: Faults) -> Windows {
    let mut windows = Windows::default();
    for seed in 0..runs {
        match run(seed, faults, Mutant::None) {
            Ok(passed) => windows.add(&passed),
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    windows
}

/// Chance passes each window of the specification, section 9.1, time and again.
#[test]
fn invariants_hold_in_every_crash_window() {
    let runs = runs();
    let mut windows = hold(runs, Faults::Crashes);
    println!("windows passed by {runs} runs with crashes alone: {windows}");
    let faulty = hold(2 * runs, Faults::All);
    println!(
        "windows passed by {} runs under every fault: {faulty}",
        2 * runs
    );
    windows.add(&faulty);
    let rare = windows.rarer(2);
    assert!(runs < USUAL || rare.is_empty(), "hardly passed: {rare:?}");
}

#[test]
fn without_faults_everything_is_reached() {
    hold(runs(), Faults::None);
}

/// The simulation is worth something only if it finds what is wrong.
#[test]
fn every_mutant_is_caught() {
    catch(&Mutant::CAUGHT_BY);
}

#[test]
fn every_mutant_of_groups_is_caught() {
    catch(&Mutant::CAUGHT_WITH_GROUPS);
}

fn catch(mutants: &[(Mutant, Faults, &str)]) {
    let missed = mutants.iter().filter(|(mutant, faults, expected)| {
        let violation = |seed| run(seed, *faults, *mutant).err();
        let caught = |seed| violation(seed).is_some_and(|violation| violation.contains(expected));
        !(0..MOST).any(caught)
    });
    let missed: Vec<_> = missed.collect();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

/// One run that is looked at: `SEED=… FAULTS=All cargo test -p snapshot-programs one_seed -- --ignored`.
#[test]
#[ignore = "for looking at one run"]
fn one_seed() {
    let seed = std::env::var("SEED").unwrap().parse().unwrap();
    let faults = match std::env::var("FAULTS").as_deref() {
        Ok("All") => Faults::All,
        Ok("Crashes") => Faults::Crashes,
        _ => Faults::None,
    };
    run(seed, faults, Mutant::None).unwrap();
}

/// What is violated with one mutant: `MUTANT=ForgetsMark cargo test -p snapshot-programs one_mutant --
/// --ignored --nocapture`.
#[test]
#[ignore = "for looking at one mutant"]
fn one_mutant() {
    let wanted = std::env::var("MUTANT").unwrap();
    let mut all = Mutant::CAUGHT_BY.iter().chain(&Mutant::CAUGHT_WITH_GROUPS);
    let of = all.find(|(mutant, ..)| format!("{mutant:?}") == wanted);
    let (mutant, faults, expected) = of.unwrap();
    for seed in 0..runs() {
        if let Err(violation) = run(seed, *faults, *mutant) {
            println!("seed {seed}, {}: {violation}", violation.contains(expected));
        }
    }
}
