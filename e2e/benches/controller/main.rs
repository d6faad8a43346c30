//! The figures of the controllers: file size, memory, processor time, fairness, against a real API
//! server and the test driver.
//!
//! `cargo bench --profile tool -p e2e --bench controller -- [PROGRAM] [PROFILE]...` measures the programs that `make
//! build` put into `bin/`, and beside each, in turn and in the same run, the program that `ATTACHER`, `PROVISIONER`,
//! `RESIZER`, `SNAPSHOTTER` or `SNAPSHOT_CONTROLLER` names, if any; beside `csi-sidecars` the sum of our single
//! programs, and in `large` that of upstream's, if all five are named. `make bench` runs everything and keeps the
//! results in `docs/figures/recorded`. `SCALE=0.1` shrinks the large cluster (its targets are then not judged),
//! `RELISTS=0` leaves ten relists out.
//!
//! Layout: `attacher`, `provisioner`, `resizer` and `snapshotter` measure these programs, one file per profile, and
//! `together` one process that holds them; `rest` and `memory` are profiles of all programs; `world` is the cluster,
//! `bound` creates objects that two programs share, `contender` is a measured program, `usage` reads its memory and
//! processor time, `load` writes objects, `watch` times their changes, `figure` holds results and the verdict. Another
//! controller is one more folder with profiles and one more line in [`CONTROLLERS`].

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures are printed with three digits"
)]

mod attacher;
mod bound;
mod contender;
mod figure;
mod load;
mod memory;
mod provisioner;
mod resizer;
mod rest;
mod snapshotter;
mod together;
mod told;
mod usage;
mod watch;
mod world;

use std::process::ExitCode;

use anyhow::{Context, Result};
use e2e::interrupt;
use e2e::suite::{reasons, say};

use figures::record::Provenance;

use contender::{Contender, Controller};
use figure::{Figure, Sheet};

/// A profile: a measurement of a program.
pub(crate) struct Profile {
    name: &'static str,
    run: fn(&[Contender]) -> Result<Vec<Figure>>,
}

static CONTROLLERS: &[(Controller, &[Profile])] = &[
    (attacher::ATTACHER, attacher::PROFILES),
    (provisioner::PROVISIONER, provisioner::PROFILES),
    (resizer::RESIZER, resizer::PROFILES),
    (snapshotter::SNAPSHOTTER, snapshotter::PROFILES),
    (
        snapshotter::SNAPSHOT_CONTROLLER,
        snapshotter::CONTROLLER_PROFILES,
    ),
    (together::CSI_SIDECARS, together::PROFILES),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    match measure(&words) {
        Ok(sheet) => sheet.verdict(),
        Err(error) => {
            say(&format!("bench: FAILED\n{}", reasons(&error)));
            let stopped = interrupt::behind(&error);
            stopped.map_or(ExitCode::FAILURE, |signal| signal.exit_code().into())
        }
    }
}

fn measure(words: &[String]) -> Result<Sheet> {
    interrupt::listen()?;
    let provenance = Provenance::now()?;
    let named = |name: &str| words.iter().any(|word| word == name);
    let any_program = CONTROLLERS.iter().any(|(one, _)| named(one.program));
    let profiles = || CONTROLLERS.iter().flat_map(|(_, profiles)| *profiles);
    let any_profile = profiles().any(|profile| named(profile.name));
    let mut sheet = Sheet::default();
    for (controller, profiles) in CONTROLLERS {
        if any_program && !named(controller.program) {
            continue;
        }
        let contenders = controller.contenders()?;
        for contender in &contenders {
            say(&format!(
                "{:>5}: {}",
                contender.name,
                contender.path.display()
            ));
        }
        for profile in *profiles {
            if any_profile && !named(profile.name) {
                continue;
            }
            say(&format!("\n=== {} {}", controller.program, profile.name));
            let figures = (profile.run)(&contenders)
                .with_context(|| format!("{} {}", controller.program, profile.name))?;
            if let Some(provenance) = &provenance {
                let what = (controller.program, profile.name);
                figure::keep(provenance, what, &contenders, &figures)?;
            }
            sheet.add(controller.program, profile.name, figures);
        }
    }
    Ok(sheet)
}
