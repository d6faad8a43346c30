//! The plain case.

use anyhow::Result;
use e2e::cluster::Cluster;
use e2e::object::Binding;
use e2e::suite::Verdict;

use super::scene::{Scene, at_most, skipped, writes};

/// Number of claims in the plain scenario.
const CLAIMS: u64 = 5;

pub(super) fn immediate(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    let flags = ["--enable-topology=false", "--sync=false"];
    let scene = Scene::new(cluster, "immediate", Binding::Immediate, &flags)?;
    let _driver = scene.deployment.start_controller(&[])?;
    let mut provisioner = scene.start_provisioner(&[])?;
    let names: Vec<_> = (0..CLAIMS).map(|it| format!("immediate-{it}")).collect();
    for name in &names {
        scene.claim(name)?;
    }
    for name in &names {
        scene.until_bound(&mut provisioner, name)?;
    }
    for name in &names {
        scene.release(name)?;
    }
    scene.until_nothing_is_left(&mut provisioner)?;
    let requests = scene.phase()?;
    // Five writes per claim are allowed, events included; the leader records one event about
    // itself.
    let told = requests.count(|it| it.resource == "events");
    at_most("writes", writes(&requests), 3 * CLAIMS, &requests)?;
    at_most("events", told, 2 * CLAIMS + 1, &requests)?;
    for method in ["CreateVolume", "DeleteVolume"] {
        let calls = scene.calls()?.of(method).count();
        at_most(method, calls as u64, CLAIMS, &requests)?;
    }
    scene.finish()
}
