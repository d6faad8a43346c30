//! Crash simulation: the real decisions against a model API server and a model driver.
//!
//! One run is one interleaving, drawn from a seed: users create and delete claims, volumes and classes, Kubernetes
//! binds, releases and attaches, watch events arrive late or again, attempts advance one step at a time, requests are
//! refused or lose their answer, calls fail with or without effect or outlive their caller, and the process is killed
//! or asked to stop at any point and restarts with empty caches. Then the faults end, and everything must come to rest.
//!
//! The invariants of every run:
//!
//! 1. no volume is left without a PersistentVolume, wherever the process is killed or stopped and
//!    whatever becomes of its claim; only `--provisioning-protection=off` may lose some, and the entry of a volume
//!    whose name is that of a PersistentVolume with another handle stays in the journal until that is gone;
//! 2. no claim has two volumes, however many provisioners there are, except for a second one that its driver has
//!    refused to know of, until the request is repeated, and one of a request that is unsettled on a node whose
//!    provisioner has removed it as selected node;
//! 3. no PersistentVolume is deleted, nor loses our finalizer, before its volume is deleted; no volume is
//!    deleted while a VolumeAttachment names it, none whose policy keeps it, none of another driver;
//! 4. a CreateVolume that is repeated is the same request, name, parameters, source and topologies, until
//!    the driver gave a final answer; none lacks the Secret that its class names;
//! 5. no two calls of one process for one volume are in flight;
//! 6. no call is made before its intent is in the journal, and no intent is removed, nor another
//!    node selected, while a volume may be made that the API does not know of;
//! 7. no source loses its finalizer while a call for a claim that copies it runs or had no
//!    answer;
//! 8. every deleted claim, snapshot and volume goes, every claim gets its volume, no intent and no
//!    finalizer of ours stays where nothing is due, and every bound volume with policy Delete has the finalizer.
//!    Only claims for a copy of a deleted source, whose request never had an answer, wait, and the unsettled request
//!    for a copy that was never made is left to people;
//! 9. without faults there is exactly one CreateVolume and one DeleteVolume for each volume, and no
//!    DELETE of an object that is gone, however late watch events are;
//! 10. when everything is at rest, no process keeps any state of a claim or a volume;
//! 11. no process makes the same CreateVolume request more than twice without a pause and without new
//!     information;
//! 12. no volume is cloned from a claim without our finalizer, unless the claim that it is for is gone;
//! 13. while a fault lasts, objects that users delete go all the same, except for the sources of calls with
//!     unknown outcome;
//! 14. if an administrator deletes some objects of a journal, only the entries of those are
//!     lost, and while its objects cannot be written, even before the process has started, all other work continues;
//! 15. no PersistentVolume loses its volume, however the driver spells handles;
//! 16. while no call for a node that is gone gets an answer, claims for which another node is selected get their
//!     volumes there.
//!
//! Assumptions: a request of a stopped process is applied before its successor lists, or never, except for writes of
//! the journal and of PersistentVolumes, which may be applied at any time. A process that was frozen while its
//! successor led gets the replies to requests that it had sent, which may be applied only then, and sends no others:
//! every request and call checks the lease's fence (the process tests `fs_9_…` prove that). When a change of a volume
//! is seen, or the volume is looked at again after an own write, the attachments that were made before have been seen
//! as well, unless their watch is known to have ended. For 9 the same holds of claims: a process that still sees a
//! claim, but neither its volume nor any trace of it, would make another volume, and delete it when it sees more. A
//! sweep of snapshots decides and writes at once, and nobody changes the policy of a volume while its finalizer is
//! being changed. The API servers' clocks agree. A driver reports the same size of a volume each time: one that is
//! found too small is deleted, and a process that was frozen with a better answer may have sent the PersistentVolume.
//!
//! | file | contents |
//! |---|---|
//! | `scene` | the setting of a run: plain volumes, topology, data sources, a plugin, node deployment |
//! | `server`, `wire` | the model API server, with its event log |
//! | `driver` | the model driver |
//! | `users`, `nodes`, `hopeless` | actions of users, changes of nodes, and what users have to give up |
//! | `cluster` | Kubernetes' own controllers |
//! | `deliver` | lists and watch events for a process's caches |
//! | `informers` | the caches as a mutant sees them |
//! | `process` | the shipped controller, with its queues and attempts |
//! | `event` | changes of the caches, as the controller gets them |
//! | `step`, `absorb` | attempts advance |
//! | `call`, `request`, `volume`, `source` | requests of attempts to driver and server, and checks of the invariants |
//! | `death` | the end of a process |
//! | `freeze` | processes that do not know that they lead no longer |
//! | `rival` | processes that wait for another one without an election |
//! | `removal` | removals of finalizers that come from others, or late |
//! | `journal` | the provisioning journal |
//! | `run` | one run: the choice of the next action |
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

/// Seeds after which a mutant counts as not caught.
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

/// The simulation is worth something only if it finds faults.
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

/// Prints the violation of one mutant: `MUTANT=ForgetsReads cargo test -p provisioner one_mutant -- --ignored
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
