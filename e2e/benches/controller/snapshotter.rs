//! Measurements of csi-snapshotter and of snapshot-controller, which has no driver.
//!
//! Layout: `objects` makes the cluster's contents, `large` measures memory and `cycle` work, of both
//! programs: a snapshot takes both.

mod cycle;
mod large;
pub(crate) mod objects;

use anyhow::Result;

use crate::contender::{Contender, Controller};
use crate::figure::Figure;
use crate::world::{Controllers, World};
use crate::{Profile, rest};

pub(crate) const SNAPSHOTTER: Controller = Controller {
    program: "csi-snapshotter",
    other_by: "SNAPSHOTTER",
    flags: &[],
};

pub(crate) const SNAPSHOT_CONTROLLER: Controller = Controller {
    program: "snapshot-controller",
    other_by: "SNAPSHOT_CONTROLLER",
    flags: &[],
};

const MOST_MB: f64 = 8.0;

pub(crate) static PROFILES: &[Profile] = &[
    Profile {
        name: "size",
        run: size,
    },
    Profile {
        name: "idle",
        run: idle,
    },
    Profile {
        name: "cycle",
        run: cycle::run,
    },
    Profile {
        name: "large",
        run: large::run,
    },
];

pub(crate) static CONTROLLER_PROFILES: &[Profile] = &[
    Profile {
        name: "size",
        run: size,
    },
    Profile {
        name: "idle",
        run: controller_idle,
    },
];

fn size(contenders: &[Contender]) -> Result<Vec<Figure>> {
    rest::size(contenders, 8.5)
}

fn idle(contenders: &[Contender]) -> Result<Vec<Figure>> {
    let world = World::with_snapshots(Controllers::Stopped)?;
    let driver = objects::driver(&world)?;
    let figures = rest::idle_in(&world, Some(&driver), contenders, MOST_MB)?;
    drop(driver);
    world.down()?;
    Ok(figures)
}

fn controller_idle(contenders: &[Contender]) -> Result<Vec<Figure>> {
    let world = World::with_snapshots(Controllers::Stopped)?;
    let figures = rest::idle_in(&world, None, contenders, MOST_MB)?;
    world.down()?;
    Ok(figures)
}
