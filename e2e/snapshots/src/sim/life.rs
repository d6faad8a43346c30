//! The life of one VolumeSnapshot, in which either program stops at each of its steps.
//!
//! What chance passes through often enough it need not pass in each combination: here it is every step
//! of every life, once with the process gone and once with it standing still.

use super::kind::Kind;
use super::mutant::Mutant;
use super::objects::{content, of_content, snapshot};
use super::world::{Faults, Stop, World};

#[derive(Clone, Copy, Debug)]
enum Life {
    /// Taken of a claim, and deleted with its VolumeSnapshot.
    Taken,
    /// The same, and kept.
    Kept,
    /// Named by an administrator, and deleted with its VolumeSnapshot.
    Found,
    /// Deleted before it is ready.
    Regretted,
}

/// More steps than any program makes in such a life.
const STEPS: usize = 40;

/// Whether the program made as many steps as that.
fn live(life: Life, stop: Stop, seed: u64) -> Result<bool, String> {
    let mut world = World::new(seed, Faults::Crashes, Mutant::None);
    world.stop = Some(stop);
    match life {
        Life::Taken | Life::Regretted => {
            world.add(Kind::Snapshot, snapshot("s1", "U1", "p1", Some("c1")));
        }
        Life::Kept => world.add(Kind::Snapshot, snapshot("s1", "U1", "p1", Some("cr"))),
        Life::Found => {
            let handle = world.storage.furnish(1, 0);
            world.add(Kind::Content, content("pp", "s1", &handle, "Delete"));
            world.add(Kind::Snapshot, of_content("s1", "U1", "pp"));
        }
    }
    if let Life::Regretted = life {
        for _ in 0..world.dice.below(60) {
            world.lives();
        }
        world.delete(Kind::Snapshot, "ns/s1");
    } else {
        world.settle()?;
        let ready = world
            .snapshot("U1")
            .map(|one| one["status"]["readyToUse"] == true);
        if ready != Some(true) {
            return Err(format!("is never ready: {:?}", world.snapshot("U1")));
        }
        world.delete(Kind::Snapshot, "ns/s1");
    }
    world.settle()?;
    let made = world.steps[stop.who] >= stop.after;
    let left = world.storage.snapshots.len();
    let kept = usize::from(matches!(life, Life::Kept));
    if left != kept {
        return Err(format!("{left} snapshots are left"));
    }
    world.rest()?;
    Ok(made)
}

#[test]
fn either_program_stops_at_each_step_of_a_life() {
    for life in [Life::Taken, Life::Kept, Life::Found, Life::Regretted] {
        for who in [0, 1] {
            let mut made = 0;
            for (after, frozen, seed) in (1..STEPS)
                .flat_map(|after| [(after, false), (after, true)])
                .flat_map(|(after, frozen)| (0..2).map(move |seed| (after, frozen, seed)))
            {
                let stop = Stop { who, after, frozen };
                match live(life, stop, seed) {
                    Ok(stopped) => made += usize::from(stopped),
                    Err(violation) => panic!("{life:?}, {stop:?}, seed {seed}: {violation}"),
                }
            }
            assert!(made > 10, "{life:?} of program {who} has {made} stops");
        }
    }
}

/// A content that nobody has bound yet is deleted, which takes its snapshot along, while a VolumeSnapshot
/// that names it comes: what is bound to it must not be called usable without its snapshot.
#[test]
fn a_content_that_is_going_is_promised_to_nobody() {
    for seed in 0..400 {
        let mut world = World::new(seed, Faults::None, Mutant::None);
        let handle = world.storage.furnish(1, 0);
        let mut made = content("pp", "s1", &handle, "Delete");
        made["metadata"]["finalizers"] = serde_json::json!(["x/y"]);
        world.add(Kind::Content, made);
        let (created, deleted) = (world.dice.below(40), world.dice.below(40));
        for step in 0..80 {
            if step == created {
                world.add(Kind::Snapshot, of_content("s1", "U1", "pp"));
            }
            if step == deleted {
                world.delete(Kind::Content, "pp");
            }
            world.lives();
            world.check();
        }
        let end = world.verdict().and_then(|()| world.rest().map(drop));
        assert_eq!(end, Ok(()), "seed {seed}");
    }
}
