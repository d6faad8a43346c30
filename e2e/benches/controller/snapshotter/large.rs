//! A large cluster: 20,000 snapshots of 2,000 claims, all taken long ago.

use std::time::Instant;

use anyhow::{Context, Result};
use e2e::suite::say;

use super::objects::{self, CONTENTS, SNAPSHOTS};
use super::{SNAPSHOT_CONTROLLER, SNAPSHOTTER};
use crate::bound::{self, Drivers};
use crate::contender::Contender;
use crate::figure::Figure;
use crate::memory::{self, Limits};
use crate::world::{Controllers, World};

const LIMITS: Limits = Limits {
    resident_mb: 25.0,
    // The resizer's limit per object.
    cpu_seconds: 2.6,
};

/// Snapshots of each claim.
const KEPT: usize = 10;

pub(super) fn run(snapshotters: &[Contender]) -> Result<Vec<Figure>> {
    let count = (20_000.0 * memory::scale()?) as usize;
    let world = World::with_snapshots(Controllers::Stopped)?;
    fill(&world, count)?;
    let driver = objects::driver(&world)?;
    let controllers = SNAPSHOT_CONTROLLER.contenders()?;
    let mut figures = Vec::new();
    let programs = [
        (
            (SNAPSHOTTER.program, snapshotters),
            (Some(&driver), "/volumesnapshotcontents"),
        ),
        // The controller has as many objects of two kinds, each with a watch of its own.
        (
            (SNAPSHOT_CONTROLLER.program, &controllers),
            (None, "/volumesnapshot"),
        ),
    ];
    for ((program, contenders), (driver, watched)) in programs {
        let all = memory::measure_with(&world, driver, watched, contenders)?;
        let what = format!("{count} snapshots and contents");
        let of_program = |figure: Figure| Figure {
            what: format!("{program}: {}", figure.what),
            ..figure
        };
        figures.extend(
            memory::figures(count, &what, &all, LIMITS)?
                .into_iter()
                .map(of_program),
        );
    }
    drop(driver);
    world.down()?;
    Ok(figures)
}

fn fill(world: &World, count: usize) -> Result<()> {
    let start = Instant::now();
    let load = &world.load;
    objects::create_class(load)?;
    let claims = count.div_ceil(KEPT);
    // No call for these volumes ever reaches the driver.
    let volume = |claim: usize| format!("vol-{claim:08x}");
    let volumes: Vec<_> = (0..claims).map(volume).collect();
    bound::create_bound(load, &volumes, Drivers::One)?;
    let name = |index: usize| format!("{}-{}", bound::name(index / KEPT), index % KEPT);
    let snapshots =
        (0..count).map(|index| objects::taken(&name(index), &bound::name(index / KEPT)));
    load.create(SNAPSHOTS, snapshots)?;
    // A content's name contains the UID of its VolumeSnapshot, which the API server chose.
    let uids = bound::uids(load, SNAPSHOTS)?;
    let uids: Vec<&String> = (0..count)
        .map(|index| uids.get(&name(index)).context("a snapshot without UID"))
        .collect::<Result<_>>()?;
    let contents = uids.iter().enumerate();
    let contents =
        contents.map(|(index, uid)| objects::content(&name(index), uid, &volume(index / KEPT)));
    load.create(CONTENTS, contents)?;
    load.merge(uids.iter().enumerate().map(|(index, uid)| {
        let path = format!("{CONTENTS}/{}/status", objects::content_name(uid));
        (path, objects::content_status(&format!("snap-{index:08x}")))
    }))?;
    load.merge(uids.iter().enumerate().map(|(index, uid)| {
        let path = format!("{SNAPSHOTS}/{}/status", name(index));
        (path, objects::snapshot_status(uid))
    }))?;
    say(&format!(
        "{count} snapshots of {claims} claims written in {:.0} s",
        start.elapsed().as_secs_f64()
    ));
    Ok(())
}
