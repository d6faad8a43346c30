//! The life of one VolumeSnapshot, or of one group, with a stop of either program at each step.
//!
//! Random runs pass frequent points, but not in every combination: these runs stop at every step
//! of every life, once with the process gone and once with it frozen.

use super::kind::Kind;
use super::mutant::Mutant;
use super::objects::{
    claim, content, group, group_content, group_of_content, of_content, snapshot,
};
use super::world::{Faults, Stop, World};

#[derive(Clone, Copy, Debug)]
enum Life {
    /// Taken of a claim, and deleted along with its VolumeSnapshot.
    Taken,
    /// Taken of a claim, and retained.
    Kept,
    /// Imported by an administrator, and deleted along with its VolumeSnapshot.
    Found,
    /// Deleted before it becomes ready.
    Regretted,
    /// The same for groups.
    Group,
    GroupKept,
    GroupFound,
    GroupRegretted,
}

impl Life {
    const ALL: [Self; 8] = [
        Self::Taken,
        Self::Kept,
        Self::Found,
        Self::Regretted,
        Self::Group,
        Self::GroupKept,
        Self::GroupFound,
        Self::GroupRegretted,
    ];

    /// Upper bound on a program's steps in this life.
    fn steps(self) -> usize {
        match self {
            Self::Taken | Self::Kept | Self::Found | Self::Regretted => 40,
            Self::Group | Self::GroupKept | Self::GroupFound | Self::GroupRegretted => 120,
        }
    }

    /// Number of seeds for each stop.
    fn seeds(self) -> u64 {
        if self.steps() > 40 { 1 } else { 2 }
    }

    fn begin(self, world: &mut World) -> (Kind, &'static str) {
        match self {
            Self::Taken | Self::Regretted => {
                world.add(Kind::Snapshot, snapshot("s1", "U1", "p1", Some("c1")));
            }
            Self::Kept => world.add(Kind::Snapshot, snapshot("s1", "U1", "p1", Some("cr"))),
            Self::Found => {
                let handle = world.storage.furnish(1, 0);
                world.add(Kind::Content, content("pp", "s1", &handle, "Delete"));
                world.add(Kind::Snapshot, of_content("s1", "U1", "pp"));
            }
            Self::Group | Self::GroupRegretted => {
                world.add(Kind::Group, group("v1", "V1", Some("g")));
            }
            Self::GroupKept => world.add(Kind::Group, group("v1", "V1", Some("gr"))),
            Self::GroupFound => {
                let (handle, members) = world.furnish_group();
                let made = group_content("gpp", "v1", (&handle, &members), "Delete");
                world.add(Kind::GroupContent, made);
                world.add(Kind::Group, group_of_content("v1", "V1", "gpp"));
            }
        }
        match self {
            Self::Taken | Self::Kept | Self::Found | Self::Regretted => (Kind::Snapshot, "ns/s1"),
            Self::Group | Self::GroupKept | Self::GroupFound | Self::GroupRegretted => {
                world.add(Kind::Claim, claim("p2", "pv2"));
                (Kind::Group, "ns/v1")
            }
        }
    }
}

/// Lives one life. Returns whether the program got as far as the stop.
fn live(life: Life, stop: Stop, seed: u64) -> Result<bool, String> {
    let mut world = World::new(seed, Faults::Crashes, Mutant::None);
    world.stop = Some(stop);
    let (kind, key) = life.begin(&mut world);
    if let Life::Regretted | Life::GroupRegretted = life {
        for _ in 0..world.dice.below(2 * life.steps()) {
            world.lives();
        }
    } else {
        world.settle()?;
        let one = world.server.get(kind, key);
        if !one.is_some_and(|one| one["status"]["readyToUse"] == true) {
            return Err(format!("is never ready: {one:?}"));
        }
        let mut all = world.server.all(Kind::Snapshot);
        if let Some((key, one)) = all.find(|(_, one)| one["status"]["readyToUse"] != true) {
            return Err(format!("{key} is never ready: {one}"));
        }
    }
    world.delete(kind, key);
    world.settle()?;
    let made = world.steps[stop.who] >= stop.after;
    let left = world.storage.snapshots.len();
    let kept = usize::from(matches!(life, Life::Kept | Life::GroupKept));
    if left != kept {
        return Err(format!("{left} snapshots are left"));
    }
    world.rest()?;
    Ok(made)
}

#[test]
fn either_program_stops_at_each_step_of_a_life() {
    for life in Life::ALL {
        for who in [0, 1] {
            let mut made = 0;
            for (after, frozen, seed) in (1..life.steps())
                .flat_map(|after| [(after, false), (after, true)])
                .flat_map(|(after, frozen)| {
                    (0..life.seeds()).map(move |seed| (after, frozen, seed))
                })
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

/// A content without a VolumeSnapshot is deleted, along with its snapshot, while a VolumeSnapshot
/// that names it is created: it must not be reported as ready without the snapshot.
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
