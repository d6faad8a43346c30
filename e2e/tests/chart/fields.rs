//! The chart's values for Kubernetes objects have every field that the API server knows, and no other.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use e2e::chart;
use e2e::cluster::Cluster;
use e2e::suite::Verdict;
use serde_json::Value;

struct Row {
    /// Schema of the API server.
    kind: &'static str,
    /// Path in the chart's schema.
    values: &'static str,
    /// Fields of the object that other values set.
    elsewhere: &'static [&'static str],
    /// Values that are not fields of the object.
    ours: &'static [&'static str],
}

const ROWS: &[Row] = &[
    Row {
        kind: "CSIDriverSpec",
        values: "/properties/csiDriver/properties",
        // Set by driver.attachRequired and features.capacity.
        elsewhere: &["attachRequired", "storageCapacity"],
        ours: &["create"],
    },
    Row {
        kind: "StorageClass",
        values: "/properties/storageClasses/items/properties",
        elsewhere: &["apiVersion", "kind", "metadata", "provisioner"],
        ours: &["name", "default", "annotations"],
    },
];

pub(super) fn all_there(cluster: &Cluster) -> Result<Verdict> {
    let served = cluster.api()?.get("/openapi/v3/apis/storage.k8s.io/v1")?;
    let schema = chart::folder("csi-sidecars").join("values.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(schema)?)?;
    for row in ROWS {
        let kind = row.kind;
        let path = format!("/components/schemas/io.k8s.api.storage.v1.{kind}/properties");
        let mut expected = keys(&served, &path)?;
        for field in row.elsewhere {
            ensure!(expected.remove(field), "{kind} has no {field}");
        }
        expected.extend(row.ours);
        let has = keys(&schema, row.values)?;
        let differ: Vec<_> = has.symmetric_difference(&expected).collect();
        ensure!(
            differ.is_empty(),
            "{kind}: only the chart or only the API server has {differ:?}"
        );
    }
    Ok(Verdict::Passed)
}

fn keys<'a>(document: &'a Value, path: &str) -> Result<BTreeSet<&'a str>> {
    let map = document.pointer(path).and_then(Value::as_object);
    let map = map.with_context(|| format!("no {path}"))?;
    Ok(map.keys().map(String::as_str).collect())
}
