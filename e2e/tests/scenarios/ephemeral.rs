//! A pod with an inline ephemeral volume: published by the kubelet, written, unpublished.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::node::Seat;
use e2e::suite::{Scenario, Verdict};
use e2e::{object, program, wait};

pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[Scenario {
    name: "inline_volume_is_mounted_and_unmounted",
    run: inline_volume,
}];

const POD: &str = "/api/v1/namespaces/default/pods/inline";

fn inline_volume(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    let seat = Seat::new(cluster, 0, "inline.example.com")?;
    let _driver = seat.start_driver(&[])?;
    let mut registrar = seat.start_registrar(&[])?;
    seat.until_registered(&api, &mut registrar)?;
    api.create(
        "/apis/storage.k8s.io/v1/csidrivers",
        &object::csi_driver(&seat.driver, false),
    )?;
    let volume = object::inline_volume(&seat.driver);
    let pod = api.create(
        "/api/v1/namespaces/default/pods",
        &object::pod("inline", &seat.node, &volume),
    )?;
    let uid = text(&pod, "/metadata/uid").context("uid of the pod")?;
    let volumes = seat.kubelet_dir().join("pods").join(uid).join("volumes");
    let target: PathBuf = volumes.join("kubernetes.io~csi/data/mount");

    wait::until_true(
        Duration::from_secs(30),
        "the volume is mounted for the pod",
        || Ok(!seat.mounts_below(&target)?.is_empty()),
    )
    .with_context(|| api.events("default", "inline"))?;
    wait::until_true(Duration::from_secs(30), "the pod runs", || {
        Ok(text(&api.get(POD)?, "/status/phase") == Some("Running"))
    })?;
    let file = target.join("file");
    let file = file.to_string_lossy();
    seat.run("/bin/sh", &["-c", &format!("echo written > {file}")])?;
    ensure!(
        seat.run("/bin/cat", &[&file])?.trim() == "written",
        "the file can be read again"
    );

    api.delete(POD)?;
    wait::until_true(Duration::from_secs(30), "the volume is unmounted", || {
        Ok(seat.mounts_below(&target)?.is_empty())
    })?;
    api.until_gone(Duration::from_secs(30), POD)?;
    if !program::driver_is_foreign() {
        // The driver records a call after its effect is visible.
        let calls = || -> Result<bool> {
            let published = seat.calls("NodePublishVolume")?;
            Ok((published, seat.calls("NodeUnpublishVolume")?) == (1, 1))
        };
        wait::until_true(
            Duration::from_secs(30),
            "one publish and one unpublish call",
            calls,
        )?;
    }
    api.delete(&format!(
        "/apis/storage.k8s.io/v1/csidrivers/{}",
        seat.driver
    ))?;
    Ok(Verdict::Passed)
}
