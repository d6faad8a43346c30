//! An idle program: the size of its file, and its memory as leader of an empty cluster.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use e2e::suite::say;

use crate::contender::Contender;
use crate::figure::{Figure, Target};
use crate::usage::{Usage, at_rest};
use crate::world::{Controllers, Driver, Route, World};

/// The size of the file.
pub(crate) fn size(contenders: &[Contender], most_mb: f64) -> Result<Vec<Figure>> {
    let sizes: Vec<f64> = contenders
        .iter()
        .map(|contender| Ok(std::fs::metadata(&contender.path)?.len() as f64 / 1e6))
        .collect::<Result<_>>()?;
    let target = Target::AtMost(most_mb);
    Ok(vec![Figure::new("binary, MB", &sizes, target)])
}

/// Long enough for a garbage collector to return the memory of the start.
const SETTLE: Duration = Duration::from_secs(20);

/// Memory of an idle leader.
pub(crate) fn idle(contenders: &[Contender], most_mb: f64) -> Result<Vec<Figure>> {
    let world = World::up(Controllers::Stopped)?;
    let driver = world.driver()?;
    let figures = idle_in(&world, Some(&driver), contenders, most_mb)?;
    drop(driver);
    world.down()?;
    Ok(figures)
}

/// Memory of an idle leader in a cluster with the API that the program needs.
pub(crate) fn idle_in(
    world: &World,
    driver: Option<&Driver>,
    contenders: &[Contender],
    most_mb: f64,
) -> Result<Vec<Figure>> {
    let (mut resident, mut anonymous) = (Vec::new(), Vec::new());
    for contender in contenders {
        let mut process = world.start(
            contender,
            driver,
            Route::Direct,
            &["--leader-election=true"],
        )?;
        at_rest(&mut process, Duration::from_secs(60))?;
        sleep(SETTLE);
        let usage = Usage::of(&process)?;
        say(&format!(
            "{:>5}: {:.1} MB, anonymous {:.1} MB",
            contender.name,
            usage.resident / 1e6,
            usage.anonymous / 1e6
        ));
        resident.push(usage.resident / 1e6);
        anonymous.push(usage.anonymous / 1e6);
        drop(process);
        world.free_leases()?;
    }
    Ok(vec![
        Figure::new("RSS as idle leader, MB", &resident, Target::AtMost(most_mb)),
        Figure::new("of it anonymous, MB", &anonymous, Target::None),
    ])
}
