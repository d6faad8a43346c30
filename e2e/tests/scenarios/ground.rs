//! Preconditions of the controllers' scenarios: zones, and the snapshot API.

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::deployment::Deployment;
use e2e::suite::{Scenario, Verdict};
use e2e::{object, program, snapshots};
use serde_json::json;

pub(crate) const SCENARIOS: &[Scenario<Cluster>] = &[
    Scenario {
        name: "ground_zones_of_a_driver_reach_its_nodes",
        run: zones,
    },
    Scenario {
        name: "ground_snapshots_of_the_storage_can_be_stored",
        run: stored_snapshots,
    },
];

const ZONE: &str = "zones.test/zone";

fn zones(cluster: &Cluster) -> Result<Verdict> {
    if program::driver_is_foreign() {
        return Ok(Verdict::Skipped(
            "needs zones that can be chosen".to_owned(),
        ));
    }
    let api = cluster.api()?;
    let deployment = Deployment::new(cluster, &api, "zones.test", &["--sync=false"])?;
    let zone = |name: &str| format!("--topology={ZONE}={name}");
    let pods = [
        deployment.start_node(0, &[&zone("a")])?,
        deployment.start_new_node("in-b", &[&zone("b")])?,
    ];
    for (pod, zone) in pods.iter().zip(["a", "b"]) {
        let node = api.get(&format!("/api/v1/nodes/{}", pod.seat.node))?;
        let labels = node.pointer("/metadata/labels").context("labels")?;
        let label = labels.get(ZONE).and_then(|label| label.as_str());
        ensure!(label == Some(zone), "labels of {}: {labels}", pod.seat.node);
        let keys = pod.entry.pointer("/topologyKeys");
        ensure!(
            keys == Some(&json!([ZONE])),
            "topology keys in {}",
            pod.entry
        );
    }
    drop(pods);
    cluster.remove_node("in-b")?;
    Ok(Verdict::Passed)
}

fn stored_snapshots(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    snapshots::install(cluster, &api)?;
    let snapshot = object::snapshot("early", "ground.test", "snap-1", 1 << 20);
    snapshots::store(&api, &snapshot)?;
    let group = "/apis/snapshot.storage.k8s.io/v1";
    let path = format!("{group}/namespaces/default/volumesnapshots/early");
    let stored = api.get(&path)?;
    let content = text(&stored, "/status/boundVolumeSnapshotContentName");
    let content = content.context("the content's name")?;
    let content = api.get(&format!("{group}/volumesnapshotcontents/{content}"))?;
    ensure!(
        text(&content, "/status/snapshotHandle") == Some("snap-1"),
        "content: {content}"
    );
    api.delete(&path)?;
    Ok(Verdict::Passed)
}
