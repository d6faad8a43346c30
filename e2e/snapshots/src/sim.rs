//! Crash simulation of both programs that take snapshots: each drives the reactor that ships, and what
//! they say to each other goes through one API server.
//!
//! One run is one interleaving, drawn from a seed: users create VolumeSnapshots of claims and of contents
//! that an administrator made, delete them, restore from them, delete contents, change their policies;
//! claims, classes and the Secret come and go; claims of other namespaces want to be restored; backup tools
//! apply objects again under names of their own, cut members loose from their group, and take finalizers away;
//! other programs hold objects; watch events reach each program late and kind by kind; requests meet
//! conflicts, are refused or lose their answer, or arrive when nobody waits any more; calls fail with or
//! without effect, outlive their caller, or find the driver away; snapshots become ready some time after they
//! are cut; and either program stops at any point and starts anew with empty caches, at times without groups,
//! or stands still while another one leads, and then goes on. In some runs the snapshotter is an older one,
//! which protects nothing that it takes. Then the faults end, but for a few of the driver about groups, and
//! everything must come to rest; what is left is deleted, and must go.
//!
//! What is held, in every run:
//!
//! 1. there is at most one snapshot, and at most one content, for each VolumeSnapshot, ever, unless the driver
//!    lost a snapshot and took another, which then makes nothing ready, or users took the content away;
//! 2. no snapshot is in storage, nor may come into being, without a content that names it or is marked,
//!    unless its policy was to retain it or nothing held what users took away;
//! 3. no content is deleted whose policy is `Retain` or whose VolumeSnapshot lives, and no snapshot under
//!    a content that always was to be retained;
//! 4. the driver is asked to delete what a content names that is being deleted, and whose VolumeSnapshot
//!    has said so or was never bound; never while a call is in doubt;
//! 5. a VolumeSnapshot that can be used, and lives, has a content whose snapshot is there and can be used;
//! 6. a handle, once in a status, never changes but for being cleared, after the snapshot is gone;
//! 7. no snapshot is taken anew, none beside the content that is bound, and none of a claim that is not
//!    protected; no VolumeSnapshot goes before its content is being deleted, if that is its policy;
//! 8. finalizers of others survive every write;
//! 9. at rest every VolumeSnapshot can be used whose claim or content is there, no claim is held without
//!    need, and nothing that was deleted stays Terminating;
//! 10. in the end no content is left that was to go, and neither program remembers anything of what is gone;
//! 11. no request is repeated again and again without time going on;
//! 12. without faults whatever the controller waits for wakes it without its back-off, users are told of no
//!     failure that only the order of events explains, and no claim is held for what is never mended.
//!
//! In half of the runs people take groups, too, of claims with a label and of what an administrator made;
//! the driver cuts and deletes them member by member, fails in the middle, lists members late, and at times
//! answers with fewer members, or about others, than it was asked for or told before. All of the above is
//! held of them and their contents, and beyond that:
//!
//! 13. a group has one content and one group snapshot, ever, and is protected before its content is made;
//! 14. who belongs to a group is written with its handle, is named when it is deleted, and never changes;
//! 15. no snapshot is taken for a member, and none deleted alone where it is known to be one; nothing of a
//!     member is deleted while its group lives;
//! 16. a member's content is bound to the VolumeSnapshot of its name, has the snapshot of its volume, and is
//!     never reset to what the driver said first;
//! 17. no group is deleted of which a member is being restored;
//! 18. what is called ready of a group is the group that was cut, and ready;
//! 19. at rest each snapshot of a group that lives has a VolumeSnapshot that can be used, and no half member
//!     is left behind; without faults no group goes before it has deleted its members;
//! 20. nobody who was cut loose is owned again.
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
//! | `check`, `change`, `groups` | what is held at each step |
//! | `seen` | what was seen of objects that may be gone |
//! | `users`, `backup`, `grouping`, `objects` | what people do |
//! | `quiescence` | the end of a run |
//! | `life` | one life of a VolumeSnapshot, and of a group, with a stop at each step |
//! | `mutant` | faulty programs, each of which must be caught |

mod backup;
mod change;
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
mod seen;
mod snapshotter;
mod step;
mod users;
mod window;
mod world;

use mutant::{Caught, Mutant};
use sidecar_testkit::sim;
use sidecar_testkit::sim::mutant::caught;
use window::Windows;
use world::{Faults, run};

/// Runs without faults, and of those under every fault; where nobody asks for more.
const USUAL: u64 = 1_500;

fn runs() -> u64 {
    sim::runs(USUAL)
}

/// Runs of other kinds, whose faults are among these.
fn fewer() -> u64 {
    runs() / 2
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
    passes_every_window(fewer(), Faults::Crashes);
}

#[test]
fn invariants_hold_under_every_fault() {
    passes_every_window(runs(), Faults::All);
}

fn passes_every_window(runs: u64, faults: Faults) {
    let windows = hold(runs, faults);
    println!("windows passed by {runs} runs, {faults:?}: {windows}");
    let rare = windows.rarer(2);
    assert!(
        runs < USUAL / 2 || rare.is_empty(),
        "hardly passed: {rare:?}"
    );
}

#[test]
fn claims_are_free_although_snapshots_are_taken_away_by_force() {
    hold(fewer(), Faults::Strips);
}

/// Nothing waits for a back-off of the controller.
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

/// The seed of the table comes first, and others if it catches the mutant no more.
fn catch(mutants: &[Caught]) {
    let missed = mutants.iter().filter_map(|&(mutant, faults, by, seed)| {
        let seeds = std::iter::once(seed).chain(0..MOST);
        match caught((mutant, faults, by), seeds, violation) {
            Ok(found) if found != seed => {
                println!("{mutant:?} is caught by seed {found}, not {seed}");
                None
            }
            Ok(_) => None,
            Err(others) => Some(others),
        }
    });
    assert_eq!(missed.collect::<Vec<_>>(), [""; 0]);
}

fn violation(seed: u64, faults: Faults, mutant: Mutant) -> Result<(), String> {
    run(seed, faults, mutant).map(drop)
}

/// The first seed that catches each mutant, for the tables: `cargo test -p snapshot-programs seeds --
/// --ignored --nocapture`.
#[test]
#[ignore = "for whoever changes the simulation"]
fn seeds() {
    for &(mutant, faults, by, _) in Mutant::CAUGHT_BY.iter().chain(&Mutant::CAUGHT_WITH_GROUPS) {
        let first = caught((mutant, faults, by), 0..sim::runs(MOST), violation);
        println!("{mutant:?} {first:?}");
    }
}

/// What is violated, and by which runs: `FAULTS=All cargo test -p snapshot-programs violations -- --ignored --nocapture`.
#[test]
#[ignore = "for whoever changes the simulation"]
fn violations() {
    for seed in 0..runs() {
        if let Err(violation) = run(seed, faults(), Mutant::None) {
            println!("seed {seed}: {violation}");
        }
    }
}

/// One run that is looked at: `SEED=… FAULTS=All cargo test -p snapshot-programs one_seed -- --ignored`.
#[test]
#[ignore = "for looking at one run"]
fn one_seed() {
    let seed = std::env::var("SEED").unwrap().parse().unwrap();
    run(seed, faults(), Mutant::None).unwrap();
}

fn faults() -> Faults {
    match std::env::var("FAULTS").as_deref() {
        Ok("All") => Faults::All,
        Ok("Crashes") => Faults::Crashes,
        Ok("Strips") => Faults::Strips,
        _ => Faults::None,
    }
}

/// What is violated with one mutant: `MUTANT=ForgetsMark cargo test -p snapshot-programs one_mutant --
/// --ignored --nocapture`.
#[test]
#[ignore = "for looking at one mutant"]
fn one_mutant() {
    let wanted = std::env::var("MUTANT").unwrap();
    let mut all = Mutant::CAUGHT_BY.iter().chain(&Mutant::CAUGHT_WITH_GROUPS);
    let of = all.find(|(mutant, ..)| format!("{mutant:?}") == wanted);
    let (mutant, faults, expected, _) = of.unwrap();
    for seed in 0..runs() {
        if let Err(violation) = run(seed, *faults, *mutant) {
            println!("seed {seed}, {}: {violation}", violation.contains(expected));
        }
    }
}
