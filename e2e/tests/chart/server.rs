//! Dry-runs everything that the charts render on a real API server.

use anyhow::{Context, Result, ensure};
use e2e::api::text;
use e2e::cluster::Cluster;
use e2e::suite::Verdict;
use e2e::{process, snapshots};
use serde_json::{Value, json};

use super::rendered::each;

pub(super) fn dry_run(cluster: &Cluster) -> Result<Verdict> {
    let api = cluster.api()?;
    snapshots::install(cluster, &api)?;
    for namespace in ["storage", "tenants"] {
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
        });
        api.create("/api/v1/namespaces", &object)?;
    }
    each(|release| {
        // Kinds that are not part of Kubernetes: the Prometheus operator defines them.
        let (foreign, objects): (Vec<_>, Vec<_>) = { release.objects()?.into_iter() }
            .partition(|object| text(object, "/apiVersion") == Some("monitoring.coreos.com/v1"));
        ensure!(
            foreign.len() <= 2,
            "{} objects are not tried",
            foreign.len()
        );
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        apply(cluster, &list)
    })?;
    for daemons in ["daemonsets", "deployments", "statefulsets"] {
        let list = api.get(&format!("/apis/apps/v1/namespaces/storage/{daemons}"))?;
        ensure!(
            list.pointer("/items") == Some(&json!([])),
            "something was stored"
        );
    }
    Ok(Verdict::Passed)
}

pub(super) fn apply(cluster: &Cluster, list: &Value) -> Result<()> {
    let file = cluster.dir().join("run").join("chart.json");
    std::fs::write(&file, serde_json::to_vec(list)?)?;
    let mut kubectl = cluster.command(&["kubectl"]);
    // Unknown fields are errors, not warnings.
    kubectl.args([
        "apply",
        "--server-side",
        "--dry-run=server",
        "--validate=strict",
        // The cluster's CRDs are upstream's.
        "--force-conflicts",
        "-f",
    ]);
    kubectl.arg(&file);
    let said = process::output(&mut kubectl).context("kubectl apply")?;
    let accepted = said
        .lines()
        .filter(|line| line.contains("(server dry run)"));
    let items = list.pointer("/items").and_then(Value::as_array);
    let items = items.map_or(0, Vec::len);
    ensure!(accepted.count() == items, "not all of {items}: {said}");
    Ok(())
}
