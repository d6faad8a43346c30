//! Crash simulation of both snapshot programs: each runs its reactor as shipped, and they communicate
//! through one API server.
//!
//! One run is one interleaving, drawn from a seed: users create VolumeSnapshots of claims and of contents
//! that an administrator made, delete them, restore from them, delete contents, change their policies;
//! claims, classes and Secrets come and go; claims of other namespaces try to restore; backup tools
//! apply objects again under new names, detach members from their group, and remove finalizers;
//! other programs hold objects; watch events reach each program late and kind by kind; requests meet
//! conflicts, are refused or lose their answer, or arrive after nobody waits for them; calls fail with or
//! without effect, outlive their caller, or find the driver away; snapshots become ready some time after they
//! are cut; and either program stops at any point and restarts with empty caches, at times without groups,
//! or stands still while another one leads, and then goes on. In some runs the snapshotter is an older one,
//! which adds no finalizers to its contents. Half of the runs are in a crowded cluster: it has contents of another
//! driver, classes pass to that driver and back, backup tools apply contents without finalizers, classes name Secrets
//! for look-ups, and the driver lists snapshots of others, by pages, and always spells some handles differently from
//! administrators. Then the faults end, except for a few of the driver about groups, and everything must come to rest;
//! whatever is left is deleted, and must disappear.
//!
//! Every run checks that
//!
//! 1. each VolumeSnapshot has at most one snapshot and one content, ever, unless the driver lost a snapshot and
//!    took another, which then makes nothing ready and is reported, or users removed the content;
//! 2. storage neither has nor can get a snapshot without a content that names it or is marked,
//!    unless the policy was to retain it, or users removed the content and no finalizer held it; nor an existing one
//!    whose content was bound, or whose look-up was recorded;
//! 3. no content is deleted whose policy is `Retain` or whose VolumeSnapshot exists, and no snapshot whose
//!    content always had the policy `Retain`;
//! 4. the driver is asked to delete only the snapshot of a content that is being deleted, and whose VolumeSnapshot
//!    is being deleted or was never bound; never while a call's outcome is unknown;
//! 5. a VolumeSnapshot that is ready and not being deleted has a content whose snapshot exists and is ready;
//! 6. a handle in a status never changes; it is only cleared, after the snapshot is gone;
//! 7. no snapshot is taken a second time, none besides the bound content's, and none of a claim that is not
//!    protected; no VolumeSnapshot goes before its content is being deleted, if that is its policy;
//! 8. the finalizers of others survive every write;
//! 9. at rest every VolumeSnapshot is ready whose claim or content exists, no claim is held without
//!    need, and nothing that was deleted stays Terminating;
//! 10. in the end no content is left that should be deleted, and neither program remembers any deleted object;
//! 11. no request is repeated many times without time passing, and no content costs csi-snapshotter many requests;
//! 12. without faults everything that the controller waits for wakes it before its back-off ends, users get no
//!     warning that only the order of events explains, and no claim is held for a failure that lasts.
//!
//! In half of the runs users also take groups, of labelled claims and of contents that an administrator made;
//! the driver cuts and deletes them member by member, fails in between, lists members late, and at times
//! answers with fewer or other members than it was asked for or reported before. All of the above holds
//! for groups and their contents. In addition,
//!
//! 13. a group has one content and one group snapshot, ever, and is protected before its content is created;
//! 14. a group's members are recorded with its handle, are listed when it is deleted, and never change;
//! 15. no snapshot is taken for a member, and none deleted alone if it is known to be a member; no object of a
//!     member is deleted while its group exists;
//! 16. a member's content is bound to the VolumeSnapshot of its name, has the snapshot of its volume, and is
//!     never reset to the driver's first report;
//! 17. no group is deleted while one of its members is being restored;
//! 18. a group is reported as ready only if it is the one that was cut, and is ready;
//! 19. at rest each snapshot of an existing group has a ready VolumeSnapshot, and no half-made member is left;
//!     without faults no group goes before it has deleted its members;
//! 20. a detached member never gets an owner again.
//!
//! Of csi-snapshotter alone every run checks that
//!
//! 21. a status has a handle, a size, a readiness and a topology that the driver reported, and the topology comes first;
//!     only the content's own snapshot is deleted;
//! 22. its patches change something, and touch no annotations of others; contents of other drivers are left alone;
//! 23. calls carry the Secret that the content or its class names;
//! 24. a snapshot that nobody wants to become ready is not polled, and a request that the driver called impossible is
//!     not repeated within 30 seconds, unless something changes;
//! 25. at rest no content is marked, unless it is lost or being deleted;
//! 26. without faults each snapshot is requested once, and once more for each failed call, for each answer that it is
//!     not ready, and for each one that came when nobody wanted it, and no write remains without effect;
//! 27. what can be done is done beside what cannot: without faults always, and in some runs under all faults.
//!
//! Not simulated: watch events that arrive twice; drivers that cannot list, and drivers without groups; a group that the
//! driver loses, or whose handle it spells differently; snapshots that it loses while a run comes to rest.
//!
//! Assumptions: requests of a stopped process arrive at any later time or never, except a content's
//! POST, the patch that binds one and the PUT of a claim, which arrive before the successor has listed;
//! and a process whose lease has expired sends nothing more.
//!
//! | file | contents |
//! |---|---|
//! | `kind` | the kinds of objects that both programs use |
//! | `world` | one run, which picks the next action |
//! | `process` | one process of either program: its reactor as shipped, on sets as queues |
//! | `controller`, `snapshotter` | the differences of the two: caches and requests |
//! | `driver` | groups in storage, and the driver's answers |
//! | `request`, `effect` | requests to the API server, and the effect of each |
//! | `step` | attempts advance |
//! | `death` | a program stops, or stands still |
//! | `window` | the crash windows, and how often runs pass them |
//! | `check`, `change`, `groups`, `calls` | the checks at each step; `calls` checks csi-snapshotter alone |
//! | `seen` | records of objects that may be gone |
//! | `users`, `backup`, `grouping`, `crowd`, `objects` | actions of people |
//! | `quiescence` | the end of a run |
//! | `life` | one life of a VolumeSnapshot, and of a group, with a stop at each step |
//! | `mutant` | faulty programs, which the checks must catch |

mod backup;
mod calls;
mod change;
mod check;
mod controller;
mod crowd;
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
use world::{Faults, run, run_about_groups};

/// Default number of runs without faults, and under all faults.
const USUAL: u64 = 1_500;

fn runs() -> u64 {
    sim::runs(USUAL)
}

/// Number of runs under a part of these faults.
fn fewer() -> u64 {
    runs() / 2
}

/// Number of seeds that must catch a mutant.
const MOST: u64 = 2_000;

/// Runs the seeds; returns the windows that they passed.
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

/// Random runs pass each window of the specification, section 9.1, many times.
#[test]
fn s_112_g_36_g_37_invariants_hold_in_every_crash_window() {
    passes_every_window(fewer(), Faults::Crashes);
}

#[test]
fn s_112_g_36_g_37_invariants_hold_under_every_fault() {
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

/// Nothing depends on the controller's back-off, and each snapshot is requested once.
#[test]
fn without_faults_everything_is_reached() {
    hold(runs(), Faults::None);
}

/// A simulation that misses faults proves nothing.
#[test]
fn every_mutant_is_caught() {
    catch(&Mutant::CAUGHT_BY, violation);
}

#[test]
fn every_mutant_of_groups_is_caught() {
    catch(&Mutant::CAUGHT_WITH_GROUPS, violation);
}

#[test]
fn every_mutant_in_a_crowded_cluster_is_caught() {
    catch(&Mutant::CAUGHT_IN_A_CROWD, violation);
}

/// csi-snapshotter handles contents of groups with the same controller, and must not break its rules there either.
#[test]
fn every_mutant_about_contents_of_groups_is_caught() {
    catch(&Mutant::CAUGHT_ABOUT_GROUPS, run_about_groups);
}

/// Runs a seed with a mutant.
type Run = fn(u64, Faults, Mutant) -> Result<(), String>;

/// Tries the table's seed first, and others if it no longer catches the mutant.
fn catch(mutants: &[Caught], run: Run) {
    let missed = mutants.iter().filter_map(|&(mutant, faults, by, seed)| {
        let seeds = std::iter::once(seed).chain(0..MOST);
        match caught((mutant, faults, by), seeds, run) {
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

/// The tables of mutants, each with its runs.
fn tables() -> [(&'static [Caught], Run); 4] {
    [
        (&Mutant::CAUGHT_BY, violation),
        (&Mutant::CAUGHT_IN_A_CROWD, violation),
        (&Mutant::CAUGHT_WITH_GROUPS, violation),
        (&Mutant::CAUGHT_ABOUT_GROUPS, run_about_groups),
    ]
}

/// The first seed that catches each mutant, for the tables: `cargo test -p snapshot-programs seeds --
/// --ignored --nocapture`. `MUTANT=…` names one.
#[test]
#[ignore = "for whoever changes the simulation"]
fn seeds() {
    let wanted = std::env::var("MUTANT").ok();
    for (mutants, run) in tables() {
        for &(mutant, faults, by, seed) in mutants {
            let name = format!("{mutant:?}");
            if wanted.as_ref().is_none_or(|wanted| *wanted == name) {
                let first = caught((mutant, faults, by), 0..sim::runs(MOST), run);
                println!("{name} {first:?} {seed}");
            }
        }
    }
}

/// Prints the seeds of violations: `FAULTS=All cargo test -p snapshot-programs violations -- --ignored --nocapture`.
#[test]
#[ignore = "for whoever changes the simulation"]
fn violations() {
    for seed in 0..runs() {
        if let Err(violation) = run(seed, faults(), Mutant::None) {
            println!("seed {seed}: {violation}");
        }
    }
}

/// Runs one seed: `SEED=… FAULTS=All cargo test -p snapshot-programs one_seed -- --ignored`.
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

/// Prints the violation by one mutant: `MUTANT=ForgetsMark cargo test -p snapshot-programs one_mutant --
/// --ignored --nocapture`.
#[test]
#[ignore = "for looking at one mutant"]
fn one_mutant() {
    let wanted = std::env::var("MUTANT").unwrap();
    for (mutants, run) in tables() {
        let mut mutants = mutants.iter();
        let of = mutants.find(|(mutant, ..)| format!("{mutant:?}") == wanted);
        let Some((mutant, faults, expected, _)) = of else {
            continue;
        };
        for seed in 0..runs() {
            if let Err(violation) = run(seed, *faults, *mutant) {
                println!("seed {seed}, {}: {violation}", violation.contains(expected));
            }
        }
    }
}
