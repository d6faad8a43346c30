//! Scenarios on a real control plane with real kubelet code. `cargo test -p e2e -- NAME` runs one.

mod attachment;
mod ephemeral;
mod expansion;
mod ground;
mod health;
mod liveness;
mod migration;
mod node_agent;
mod plugin_manager;
mod provisioning;
mod registration;
mod snapshots;
mod startup_taint;
mod together;

use std::process::ExitCode;

use anyhow::{Context, Result};
use e2e::cluster::{Cluster, Options};
use e2e::outside::Outside;
use e2e::suite;

fn main() -> ExitCode {
    suite::main(scenarios)
}

fn scenarios() -> Result<ExitCode> {
    let start = std::time::Instant::now();
    let cluster = Cluster::up(&Options {
        flags: vec!["--proxy=on".to_owned()],
        ..Options::default()
    })?;
    suite::say(&format!(
        "  cluster up after {:.1} s",
        start.elapsed().as_secs_f64()
    ));
    let groups = [
        registration::SCENARIOS,
        startup_taint::SCENARIOS,
        ephemeral::SCENARIOS,
        plugin_manager::SCENARIOS,
        node_agent::SCENARIOS,
        ground::SCENARIOS,
        liveness::SCENARIOS,
        attachment::SCENARIOS,
        provisioning::SCENARIOS,
        expansion::SCENARIOS,
        migration::SCENARIOS,
        health::SCENARIOS,
        snapshots::SCENARIOS,
        together::SCENARIOS,
    ];
    let mut outside = Outside::of(&cluster)?;
    let code = suite::run_and(&groups, &cluster, |scenario, ending| {
        let outside = outside.as_mut();
        outside.map_or(Ok(()), |outside| outside.note(scenario, ending))
    });
    drop(outside);
    cluster.down().context("teardown")?;
    suite::say("  cluster down, nothing left");
    code
}
