//! Scenarios on a node that runs containers: they test what hollow nodes cannot, whether images,
//! manifests, probes, service accounts and mounts of containers fit together.
//!
//! `e2e/runtime/enclosed.sh real-node [NAME]` runs the scenarios whose name contains NAME.

mod asked;
mod blocks;
mod chart;
mod growth;
mod helm;
mod swap;
mod together;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use e2e::{real, suite};

fn main() -> ExitCode {
    suite::main(scenarios)
}

fn scenarios() -> Result<ExitCode> {
    let start = Instant::now();
    let cluster = real::up(&[])?;
    real::load(&cluster, &real::basic_images()?)?;
    suite::say(&format!(
        "  a node that runs containers after {:.1} s",
        start.elapsed().as_secs_f64()
    ));
    let code = suite::run(
        &[
            swap::SCENARIOS,
            chart::SCENARIOS,
            growth::SCENARIOS,
            together::SCENARIOS,
            asked::SCENARIOS,
        ],
        &cluster,
    );
    cluster.down().context("teardown")?;
    code
}
