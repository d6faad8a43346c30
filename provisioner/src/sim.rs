//! Crash simulation: the real decisions against a model API server and a model driver.
//!
//! One run is one interleaving, drawn from a seed: people create and delete claims, volumes and
//! classes, Kubernetes binds, releases and attaches, watch events arrive late or again, attempts
//! advance one step at a time, requests are refused or lose their answer, calls fail with or without
//! effect or outlive their caller, and the process is killed or asked to stop at any point and starts
//! anew with empty caches. Then the faults end and everything must come to rest.
//!
//! What is held, in every run:
//!
//! 1. no volume is left without a PersistentVolume, wherever the process is killed or stopped and
//!    whatever becomes of its claim; only `--provisioning-protection=off` may lose some, and one beside a
//!    PersistentVolume of the name that says another id waits in the journal until that is gone;
//! 2. no claim has two volumes, however many provisioners there are, but for one that its driver has
//!    refused to know of, until what was asked is asked again, and one that the provisioner of a node owes
//!    that has taken its selection back;
//! 3. no PersistentVolume goes, nor our finalizer on it, before its volume is deleted; no volume is
//!    deleted while a VolumeAttachment names it, none that is to be kept, none of another driver;
//! 4. a CreateVolume that is repeated is the same request, name, parameters, source and places, until
//!    the driver gave a final answer; none lacks the Secret that its class names;
//! 5. no two calls of one process for one volume are in flight;
//! 6. nothing is called before its intent is in the journal, and no intent is removed, nor another
//!    node selected, while a volume may be made of which the API does not know;
//! 7. no source loses its finalizer while a call for a claim that is made from it runs or had no
//!    answer;
//! 8. every deleted claim, snapshot and volume goes, every claim gets its volume, no intent and no
//!    finalizer of ours stays where nothing is due, and every volume in use that is to be deleted
//!    one day has one. Only who asked for a copy of what is gone, and was never heard, waits, and what is owed for
//!    such a copy that was never made is left to people;
//! 9. without faults there is exactly one CreateVolume and one DeleteVolume for each volume, and no
//!    DELETE of what is gone, however late watch events are;
//! 10. when everything is at rest, no process remembers anything of a claim or a volume;
//! 11. nobody makes the same CreateVolume request more than twice without a pause and without having learnt
//!     anything;
//! 12. no volume is cloned from a claim without our finalizer, unless the claim that it is for is gone;
//! 13. while a fault lasts, what people delete goes all the same, but for what a call in doubt is
//!     made from;
//! 14. of a journal of which an administrator has deleted some objects nothing is lost but what was in
//!     those, and while its objects cannot be written, be it before the process has begun, all else goes on;
//! 15. no PersistentVolume loses its volume, however the driver spells ids;
//! 16. while nobody answers from a node that is gone, claims for which another node is selected get their
//!     volumes there.
//!
//! Assumptions: a request of a stopped process is applied before its successor lists, or never, but
//! for writes of the journal and of PersistentVolumes, which may be applied at any time. A process that
//! was frozen while its successor led hears of what it had sent, which may be applied only then, and sends
//! nothing more: every request and call asks the lease's fence (the process tests `fs_9_…` hold that). When
//! a change of a volume is seen, or it is looked at again after an own write, the attachments that
//! were made before have been seen as well, unless their watch is known to have ended. For 9 the same of
//! claims: a process that still sees a claim, but neither its volume nor any trace of it, would make another
//! volume, and delete it when it sees more. A sweep of snapshots decides and writes at once, and nobody
//! changes what is to become of a volume while its finalizer is being changed. The API servers' clocks agree. A driver says the same size
//! of a volume each time it is asked for it: one that is found too small is deleted, and a process that was
//! frozen with a better answer may have sent what saves it.
//!
//! | file | contents |
//! |---|---|
//! | `scene` | what a run is about: plain volumes, places, data sources, a plugin, node deployment |
//! | `server`, `wire` | the model API server, with its event log |
//! | `driver` | the model driver |
//! | `users`, `nodes`, `hopeless` | what people do, what happens to nodes, what people have to end |
//! | `cluster` | what Kubernetes' controllers do |
//! | `deliver` | what comes to a process's caches |
//! | `informers` | the caches as a mutant sees them |
//! | `process` | the controller that ships, with its queues and attempts |
//! | `event` | what it hears of the caches |
//! | `step`, `absorb` | attempts advance |
//! | `call`, `request`, `volume`, `source` | what they ask of driver and server, and what they must not |
//! | `death` | how a process ends |
//! | `freeze` | processes that lead no longer and do not know it |
//! | `rival` | processes that wait for another one without an election |
//! | `removal` | removals of finalizers that come from others, or late |
//! | `journal` | the provisioning journal |
//! | `run` | one run: what happens next |
//! | `quiescence` | the end of a run |
//! | `mutant` | faulty provisioners, each of which must be caught |

mod absorb;
mod call;
mod cluster;
mod death;
mod deliver;
mod driver;
mod event;
mod freeze;
mod hopeless;
mod informers;
mod journal;
mod mutant;
mod nodes;
mod process;
mod quiescence;
mod removal;
mod request;
mod rival;
mod run;
mod scene;
mod server;
mod source;
mod step;
mod users;
mod volume;
mod wire;

use mutant::Mutant;
use run::{Case, Faults, run};
use scene::Scene;
use sidecar_testkit::sim::{self, Dice};

use crate::plan::settings::Protection;

/// Runs `runs` seeds in each scene.
fn hold(runs: u64, faults: Faults, protection: Protection) {
    for scene in Scene::ALL {
        let case = Case {
            faults,
            protection,
            scene,
        };
        for seed in 0..runs {
            if let Err(violation) = run(seed, case, Mutant::None) {
                panic!("{case:?}, seed {seed}: {violation}");
            }
        }
    }
    let all = runs * Scene::ALL.len() as u64;
    println!("{all} interleavings, {faults:?}, {protection:?}");
}

/// Runs of each kind.
fn runs() -> u64 {
    sim::runs(4_600)
}

/// A mutant that goes unnoticed for so long is not caught.
const MOST: u64 = 50_000;

#[test]
fn j_19_nothing_is_lost_wherever_a_process_is_killed_or_frozen() {
    hold(2 * runs(), Faults::Kills, Protection::Journal);
    hold(3 * runs(), Faults::All, Protection::Journal);
}

#[test]
fn nothing_is_lost_when_a_process_stops() {
    hold(2 * runs(), Faults::Stops, Protection::Journal);
}

#[test]
fn everything_else_holds_without_protection() {
    hold(runs(), Faults::All, Protection::Off);
}

#[test]
fn one_call_each_without_faults() {
    hold(runs(), Faults::None, Protection::Journal);
}

/// The simulation is worth something only if it finds what is wrong.
#[test]
fn every_mutant_is_caught() {
    let mut wrong = Vec::new();
    for (mutant, case, expected) in Mutant::CAUGHT_BY {
        let caught = (0..MOST).find_map(|seed| Some((seed, run(seed, case, mutant).err()?)));
        println!("{mutant:?}: {caught:?}");
        match caught {
            None => wrong.push(format!("{mutant:?} was not caught")),
            Some((_, violation)) if expected.iter().any(|text| violation.contains(text)) => {}
            Some((seed, violation)) => wrong.push(format!("{mutant:?}, seed {seed}: {violation}")),
        }
    }
    assert_eq!(wrong, [""; 0]);
}

/// What is violated with one mutant: `MUTANT=ForgetsReads cargo test -p provisioner one_mutant -- --ignored
/// --nocapture`.
#[test]
#[ignore = "for looking at one mutant"]
fn one_mutant() {
    let wanted = std::env::var("MUTANT").unwrap();
    for (mutant, case, expected) in Mutant::CAUGHT_BY {
        if format!("{mutant:?}") != wanted {
            continue;
        }
        let violations = (0..sim::runs(MOST)).filter_map(|seed| {
            let violation = run(seed, case, mutant).err()?;
            let caught = expected.iter().any(|text| violation.contains(text));
            Some((caught, seed, violation))
        });
        let (caught, others): (Vec<_>, Vec<_>) = violations.partition(|(caught, ..)| *caught);
        println!(
            "{case:?}: caught {} times, first {:?}; {} others: {:?}",
            caught.len(),
            caught.first(),
            others.len(),
            others.first()
        );
    }
}
